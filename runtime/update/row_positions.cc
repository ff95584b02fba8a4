#include "runtime/update/row_positions.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <limits>

namespace tfdist::runtime {

void RowPositions::Clear() {
  first_ticket_ += static_cast<uint32_t>(rows_.size());
  rows_.clear();
}

void RowPositions::Reserve(size_t more) {
  const size_t count = rows_.size() + more;
  assert(count <= size_t{1} << 30);
  // By doubling, as push_back does: room is asked for again and again.
  if (count > rows_.capacity()) rows_.reserve(std::max(count, 2 * rows_.capacity()));
  const size_t entries = std::bit_ceil(std::max<size_t>(2 * count, 64));
  const bool out_of_tickets = count > std::numeric_limits<uint32_t>::max() - first_ticket_;
  if (entries > table_.size() || out_of_tickets) Grow(std::max(entries, table_.size()));
}

void RowPositions::Grow(size_t entries) {
  table_.assign(entries, Entry());
  shift_ = 32 - std::countr_zero(entries);
  first_ticket_ = 1;
  std::vector<uint32_t> rows;
  rows.reserve(rows_.capacity());
  rows.swap(rows_);
  for (const uint32_t row : rows) Of(row);
}

uint32_t RowPositions::Of(uint32_t row) {
  const size_t mask = table_.size() - 1;
  // Fibonacci hashing: rows that follow each other land far apart.
  size_t at = (row * 2654435769U) >> shift_;
  while (table_[at].ticket >= first_ticket_) {
    if (table_[at].row == row) return table_[at].ticket - first_ticket_;
    at = (at + 1) & mask;
  }
  const auto position = static_cast<uint32_t>(rows_.size());
  table_[at] = {row, first_ticket_ + position};
  rows_.push_back(row);
  return position;
}

}  // namespace tfdist::runtime
