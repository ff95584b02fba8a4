#include "runtime/client/rows.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/common/copy.h"
#include "runtime/common/row_bytes.h"
#include "runtime/transport/blocks.h"

namespace tfdist::runtime {
namespace {

using Kind = std::vector<RowsSlice> RequestPart::*;

// At most, of a message and of its answer.
size_t BytesPerRow(size_t width) { return sizeof(uint32_t) + width * sizeof(float); }
size_t BytesOf(const RowsSlice& slice) { return slice.rows.size() * BytesPerRow(slice.width); }

// As many messages as it takes, of one length.
size_t PiecesFor(const RowsSlice& slice) {
  const size_t rows_per_message = kMaxBlockBytes / BytesPerRow(slice.width);
  return (slice.rows.size() + rows_per_message - 1) / rows_per_message;
}

RowsSlice PieceOf(const RowsSlice& slice, size_t begin, size_t end) {
  RowsSlice piece = slice;
  piece.rows = slice.rows.subspan(begin, end - begin);
  if (!slice.positions.empty()) {
    piece.positions = slice.positions.subspan(begin, end - begin);
    return piece;
  }
  if (slice.gradients != nullptr) piece.gradients += begin * slice.width;
  if (slice.values != nullptr) piece.values += begin * slice.width;
  return piece;
}

// Writes bytes one after the other.
class Writer {
 public:
  explicit Writer(void* to) : to_(static_cast<char*>(to)) {}
  void Put(const void* from, size_t bytes) {
    CopyBytes(to_, from, bytes);
    to_ += bytes;
  }
  template <typename Bytes>
  void PutRow(const void* from, Bytes bytes) {
    std::memcpy(to_, from, bytes);
    to_ += bytes;
  }

 private:
  char* to_;
};

void PutRows(const std::vector<RowsSlice>& slices, uint32_t table, Writer& writer) {
  for (const RowsSlice& slice : slices) {
    if (slice.table == table) writer.Put(slice.rows.data(), slice.rows.size_bytes());
  }
}

void PutGradients(const RowsSlice& slice, Writer& writer) {
  if (slice.positions.empty()) return writer.Put(slice.gradients, slice.FloatBytes());
  WithRowBytes(slice.width * sizeof(float), [&](auto bytes) {
    for (const uint32_t position : slice.positions) {
      writer.PutRow(slice.gradients + position * slice.width, bytes);
    }
  });
}

const char* ScatterSlice(const RowsSlice& slice, const char* from) {
  if (slice.positions.empty()) {
    CopyBytes(slice.values, from, slice.FloatBytes());
    return from + slice.FloatBytes();
  }
  WithRowBytes(slice.width * sizeof(float), [&](auto bytes) {
    for (const uint32_t position : slice.positions) {
      std::memcpy(slice.values + position * slice.width, from, bytes);
      from += bytes;
    }
  });
  return from;
}

}  // namespace

void RowPartsBuilder::AddPush(const RowsSlice& slice) {
  RowsSlice whole = slice;
  whole.push_ends = true;
  Add(whole, &RequestPart::push_rows);
}

void RowPartsBuilder::AddPull(const RowsSlice& slice) {
  // What is added to the one message of all pushes is done after them; in the first of several it
  // would come before the rest.
  if (!std::exchange(pulling_, true) && parts_.size() > 1) open_ = false;
  Add(slice, &RequestPart::pull_rows);
}

std::vector<RequestPart> RowPartsBuilder::Take() {
  const auto by_table = [](const RowsSlice& a, const RowsSlice& b) { return a.table < b.table; };
  for (RequestPart& part : parts_) {
    std::sort(part.push_rows.begin(), part.push_rows.end(), by_table);
    std::sort(part.pull_rows.begin(), part.pull_rows.end(), by_table);
  }
  open_ = false;
  pulling_ = false;
  return std::exchange(parts_, {});
}

bool RowPartsBuilder::IsCut(const RowsSlice& push) { return PiecesFor(push) > 1; }

void RowPartsBuilder::Add(const RowsSlice& slice, Kind kind) {
  const size_t bytes = BytesOf(slice);
  if (bytes >= kFusedBytes) return Cut(slice, PiecesFor(slice), kind);
  (OpenPart(bytes).*kind).push_back(slice);
}

void RowPartsBuilder::Cut(const RowsSlice& slice, size_t pieces, Kind kind) {
  size_t begin = 0;
  for (size_t piece = 1; piece <= pieces; ++piece) {
    const size_t end = slice.rows.size() * piece / pieces;
    RowsSlice cut = PieceOf(slice, begin, end);
    cut.push_ends = slice.push_ends && piece == pieces;
    (parts_.emplace_back().*kind).push_back(cut);
    begin = end;
  }
}

RequestPart& RowPartsBuilder::OpenPart(size_t bytes) {
  if (!open_ || open_bytes_ + bytes > kMaxFusedBlockBytes) {
    open_ = true;
    open_at_ = parts_.size();
    open_bytes_ = 0;
    parts_.emplace_back();
  }
  open_bytes_ += bytes;
  return parts_[open_at_];
}

RowsSlice SumRepeated(const RowsSlice& push, RowSummer& summer, SummedRows& into) {
  std::span<const float> values(push.gradients, push.rows.size() * push.width);
  if (!push.positions.empty()) {
    into.values.resize(push.rows.size() * push.width);
    Writer writer(into.values.data());
    PutGradients(push, writer);
    values = into.values;
  }
  const RowsGradient sum = summer.Sum({push.width, push.rows, values});
  if (sum.rows.size() == push.rows.size()) return push;
  into.rows.assign(sum.rows.begin(), sum.rows.end());
  into.values.assign(sum.values.begin(), sum.values.end());
  RowsSlice summed = push;
  summed.rows = into.rows;
  summed.positions = {};
  summed.gradients = into.values.data();
  return summed;
}

void CountsOf(const RequestPart& part, std::vector<RowCounts>& counts) {
  counts.clear();
  auto push = part.push_rows.begin();
  auto pull = part.pull_rows.begin();
  while (push != part.push_rows.end() || pull != part.pull_rows.end()) {
    const bool pushes = push != part.push_rows.end() &&
                        (pull == part.pull_rows.end() || push->table <= pull->table);
    RowCounts& next = counts.emplace_back();
    next.table = pushes ? push->table : pull->table;
    if (pushes) {
      next.push_ends = push->push_ends;
      next.push = static_cast<uint32_t>((push++)->rows.size());
    }
    if (pull != part.pull_rows.end() && pull->table == next.table) {
      next.pull = static_cast<uint32_t>((pull++)->rows.size());
    }
  }
}

void WriteRows(const RequestPart& part, const std::vector<RowCounts>& counts, void* to) {
  Writer writer(to);
  for (const RowCounts& section : counts) {
    PutRows(part.push_rows, section.table, writer);
    PutRows(part.pull_rows, section.table, writer);
    for (const RowsSlice& slice : part.push_rows) {
      if (slice.table == section.table) PutGradients(slice, writer);
    }
  }
}

void ScatterRows(const zmq::message_t& answer, const RequestPart& part) {
  const char* from = answer.data<char>();
  for (const RowsSlice& slice : part.pull_rows) from = ScatterSlice(slice, from);
}

}  // namespace tfdist::runtime
