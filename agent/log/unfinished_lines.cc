#include "agent/log/unfinished_lines.h"

#include <algorithm>
#include <ranges>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace tfdist::agent {
namespace {

using protocol::LogSegment;
using protocol::Stream;

constexpr uint64_t kMostBytes = 4 << 20;
constexpr size_t kStreams = 2;

struct Part {
  uint64_t offset = 0;
  LogSegment segment;
  std::string text;
};

// At most 64 KiB that end at `position`; empty when they are no longer kept.
std::vector<Part> PartsBefore(LogReader& reader, uint64_t position, LogEnd end) {
  std::vector<Part> parts;
  for (uint64_t at = position - reader.TextBefore(position).size(); at < position;) {
    const protocol::LogPiece piece = reader.Read(at, position - at, end);
    if (piece.data.empty()) break;
    at = piece.offset;
    std::string_view rest = piece.data;
    for (const LogSegment& segment : piece.segments) {
      if (at >= position) break;
      parts.push_back({at, segment, std::string(rest.substr(0, segment.size_bytes))});
      rest.remove_prefix(segment.size_bytes);
      at += segment.size_bytes;
    }
  }
  return parts;
}

// From `position` backwards.
class Search {
 public:
  explicit Search(const LogSegment& at_position) : run_(at_position) {}

  // False: what lies before `part` says no more.
  bool LookAt(const Part& part) {
    const LogSegment& segment = part.segment;
    const bool other_run = segment.attempt != run_.attempt || segment.run != run_.run;
    if (other_run || segment.stream == Stream::kMerged) return false;
    if (found_.contains(segment.stream)) return true;
    const size_t newline = part.text.rfind('\n');
    if (newline != std::string::npos) found_.insert(segment.stream);
    const size_t begin = newline == std::string::npos ? 0 : newline + 1;
    if (begin < part.text.size()) begins_[segment.stream] = part.offset + begin;
    return found_.size() < kStreams;
  }
  [[nodiscard]] const std::map<Stream, uint64_t>& begins() const { return begins_; }

 private:
  const LogSegment run_;
  std::map<Stream, uint64_t> begins_;
  std::set<Stream> found_;
};

}  // namespace

std::map<Stream, uint64_t> UnfinishedLines(LogReader& reader, uint64_t position, LogEnd end) {
  const protocol::LogPiece there = reader.Read(position, 1, end);
  if (there.segments.empty() || there.offset != position) return {};
  Search search(there.segments.front());
  for (uint64_t at = position; position - at < kMostBytes;) {
    const std::vector<Part> parts = PartsBefore(reader, at, end);
    if (parts.empty()) break;
    const auto backwards = parts | std::views::reverse;
    if (!std::ranges::all_of(backwards, [&](const Part& part) { return search.LookAt(part); })) {
      break;
    }
    at = parts.front().offset;
  }
  return search.begins();
}

}  // namespace tfdist::agent
