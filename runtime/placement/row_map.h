// Which part of a variable holds which of its rows, both ways. The rows of a table are its ids.
// Formulas: TensorFlow, python/ops/embedding_ops.py; an example of each: LookupRule.
#pragma once

#include <algorithm>
#include <cstdint>
#include <variant>

#include "runtime/placement/divisor.h"

namespace tfdist::runtime {

enum class LookupRule {
  kDiv,  // 13 rows in 5 parts: [0 1 2] [3 4 5] [6 7 8] [9 10] [11 12]
  kMod,  //                     [0 5 10] [1 6 11] [2 7 12] [3 8] [4 9]
};

// Where a row is: in which part, and its number among the rows there, from 0.
struct RowAddress {
  uint32_t part = 0;
  uint32_t row = 0;

  bool operator==(const RowAddress&) const = default;
};

// Some rows of a variable: first, first + step, first + 2 * step ...
struct RowSet {
  uint32_t first = 0;
  uint32_t step = 1;
  uint32_t count = 0;

  bool operator==(const RowSet&) const = default;
};

// Contiguous rows per part; the first `rows mod parts` parts have one row more than the rest. Like
// `ModRows` it needs 1 <= parts <= rows, which RowMap checks.
class DivRows {
 public:
  DivRows(uint32_t rows, uint32_t parts)
      : rows_(rows / parts),
        longer_parts_(rows % parts),
        by_rows_(rows_),
        by_rows_and_one_(uint64_t{rows_} + 1) {}

  [[nodiscard]] RowSet RowsOf(uint32_t part) const;
  // TensorFlow's formula, the larger of two quotients: a branch between them would be predicted
  // wrong half of the time when ids are random.
  [[nodiscard]] RowAddress Find(uint32_t id) const {
    const uint32_t if_longer = by_rows_and_one_.Quotient(id);
    const uint32_t if_shorter = id < longer_parts_ ? 0 : by_rows_.Quotient(id - longer_parts_);
    const uint32_t part = std::max(if_longer, if_shorter);
    return {part, id - FirstOf(part)};
  }

 private:
  [[nodiscard]] uint32_t FirstOf(uint32_t part) const {
    return part * rows_ + std::min(part, longer_parts_);
  }

  uint32_t rows_;  // of each of the shorter parts
  uint32_t longer_parts_;
  Divisor by_rows_;
  Divisor by_rows_and_one_;
};

// Row i in part i mod `parts`. The parts are as long as those of `DivRows`.
class ModRows {
 public:
  ModRows(uint32_t rows, uint32_t parts) : rows_(rows), parts_(parts), divisor_(parts) {}
  [[nodiscard]] RowSet RowsOf(uint32_t part) const;
  [[nodiscard]] RowAddress Find(uint32_t id) const {
    const uint32_t row = divisor_.Quotient(id);
    return {id - row * parts_, row};
  }

 private:
  uint32_t rows_;
  uint32_t parts_;
  Divisor divisor_;
};

inline constexpr uint32_t kMaxParts = 1U << 16;  // of one variable: each costs a message of its own

class RowMap {
 public:
  // Throws Error(kRun) without rows or parts, with more parts than rows (TensorFlow's formula
  // divides by zero there), more than `kMaxParts`, or more rows than 2^32 - 1.
  RowMap(uint64_t rows, uint64_t parts, LookupRule rule);

  [[nodiscard]] uint32_t rows() const { return rows_; }
  [[nodiscard]] uint32_t parts() const { return parts_; }
  // `part` below `parts()`.
  [[nodiscard]] RowSet RowsOf(uint32_t part) const;
  // Throws Error(kRun) when no part holds `id`. For many ids at once: SplitIds.
  [[nodiscard]] RowAddress Find(int64_t id) const;

  // The rule itself, whose `Find` is inline and trusts its argument.
  using Rule = std::variant<DivRows, ModRows>;
  [[nodiscard]] const Rule& rule() const { return rule_; }

 private:
  uint32_t rows_;
  uint32_t parts_;
  Rule rule_;
};

}  // namespace tfdist::runtime
