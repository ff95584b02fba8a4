#include "runtime/client/cut_ends.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "runtime/transport/blocks.h"

namespace tfdist::runtime {
namespace {

// Of a variable's own, as blocks that several share are smaller.
bool IsLarge(const RequestPart& part) {
  return part.push.size() == 1 && part.pull.size() == 1 &&
         part.push.front().range == part.pull.front().range &&
         part.PushBytes() > kMaxFusedBlockBytes;
}

std::vector<RequestPart> PiecesOf(const RequestPart& part) {
  const Source& source = part.push.front();
  const Sink& sink = part.pull.front();
  std::vector<RequestPart> pieces(kPiecesOfAnEnd);
  uint32_t first = 0;
  for (uint32_t i = 0; i < kPiecesOfAnEnd; ++i) {
    const auto end = static_cast<uint32_t>(uint64_t{source.range.count} * (i + 1) / kPiecesOfAnEnd);
    const Range range{source.range.offset + first, end - first};
    pieces[i].block = part.block;
    const size_t behind = source.behind + source.range.count - end;
    pieces[i].push.push_back({range, source.from + first, source.variable, behind});
    pieces[i].pull.push_back({range, sink.to + first, sink.variable});
    first = end;
  }
  return pieces;
}

void Cut(std::vector<RequestPart>& parts, std::vector<RequestPart>::iterator part) {
  std::vector<RequestPart> pieces = PiecesOf(*part);
  *part = std::move(pieces.front());
  parts.insert(std::next(part), std::make_move_iterator(std::next(pieces.begin())),
               std::make_move_iterator(pieces.end()));
}

}  // namespace

void CutEnds(std::vector<RequestPart>& parts) {
  const auto last = std::find_if(parts.rbegin(), parts.rend(), IsLarge);
  if (last == parts.rend()) return;
  Cut(parts, std::prev(last.base()));
  // Pieces are not large.
  const auto first = std::find_if(parts.begin(), parts.end(), IsLarge);
  if (first != parts.end()) Cut(parts, first);
}

}  // namespace tfdist::runtime
