#include "runtime/update/row_summer.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <functional>
#include <limits>

namespace tfdist::runtime {

RowsGradient RowSummer::Sum(const RowsGradient& gradient) {
  const auto& rows = gradient.rows;
  const size_t width = gradient.width;
  assert(gradient.values.size() == rows.size() * width);
  // Clients that sort their ids pay this one look.
  if (std::adjacent_find(rows.begin(), rows.end(), std::greater_equal<>()) == rows.end()) {
    return gradient;
  }

  Reserve(rows.size());
  for (const uint32_t row : rows) {
    const uint32_t position = PositionOf(row, static_cast<uint32_t>(rows_.size()));
    if (position == rows_.size()) rows_.push_back(row);
    positions_.push_back(position);
  }
  first_ticket_ += static_cast<uint32_t>(rows_.size());
  if (rows_.size() == rows.size()) return gradient;

  sums_.resize(rows_.size() * width);
  size_t begun = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const float* const from = gradient.values.data() + i * width;
    float* const to = sums_.data() + positions_[i] * width;
    if (positions_[i] == begun) {
      std::copy_n(from, width, to);
      ++begun;
    } else {
      for (size_t j = 0; j < width; ++j) to[j] += from[j];
    }
  }
  return {width, rows_, sums_};
}

void RowSummer::Reserve(size_t count) {
  assert(count <= size_t{1} << 30);
  rows_.clear();
  positions_.clear();
  rows_.reserve(count);
  positions_.reserve(count);
  const size_t size = std::bit_ceil(std::max<size_t>(2 * count, 64));
  const bool out_of_tickets = count > std::numeric_limits<uint32_t>::max() - first_ticket_;
  if (size > table_.size() || out_of_tickets) {
    table_.assign(std::max(size, table_.size()), Entry());
    shift_ = 32 - std::countr_zero(table_.size());
    first_ticket_ = 1;
  }
}

uint32_t RowSummer::PositionOf(uint32_t row, uint32_t next) {
  const size_t mask = table_.size() - 1;
  // Fibonacci hashing: rows that follow each other land far apart.
  size_t at = (row * 2654435769U) >> shift_;
  while (table_[at].ticket >= first_ticket_) {
    if (table_[at].row == row) return table_[at].ticket - first_ticket_;
    at = (at + 1) & mask;
  }
  table_[at] = {row, first_ticket_ + next};
  return next;
}

}  // namespace tfdist::runtime
