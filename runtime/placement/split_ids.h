// A batch of ids, sorted by the part of the table that holds them: what to ask each part for, and
// where in the batch its answers belong.
//
//   SplitIds split;                                   // kept: its memory is used again
//   split.Split(table.rows, ids, "words");
//   for (size_t part = 0; part < split.parts(); ++part) {
//     ...                                             // gets split.RowsOf(part) of its rows
//     for (size_t k : split.PositionsOf(part)) ...    // its next row answers ids[k]
//   }
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/placement/row_map.h"

namespace tfdist::runtime {

class SplitIds {
 public:
  // Replaces what was split before; allocates only when a batch or a table has more ids or parts
  // than any before. The ids of one part stay in the order of the batch, an id that comes twice is
  // there twice. Fewer than 2^32 ids. Throws Error(kRun), and holds nothing then, for the first id
  // that is not a row of `table`, a name for this message only.
  void Split(const RowMap& rows, std::span<const int64_t> ids, std::string_view table);

  // Of the table that was split last; 0 before that.
  [[nodiscard]] size_t parts() const { return starts_.empty() ? 0 : starts_.size() - 1; }
  // Rows within `part`, below `parts()`. Spans are valid until the next `Split`.
  [[nodiscard]] std::span<const uint32_t> RowsOf(size_t part) const { return In(rows_, part); }
  // For each of these rows, the position in the batch.
  [[nodiscard]] std::span<const uint32_t> PositionsOf(size_t part) const {
    return In(positions_, part);
  }

 private:
  void CopyAll(uint32_t rows, std::span<const int64_t> ids, std::string_view table);
  void CountsToStarts();  // `next_` has the number of ids of each part

  [[nodiscard]] std::span<const uint32_t> In(const std::vector<uint32_t>& all, size_t part) const {
    return std::span(all).subspan(starts_[part], starts_[part + 1] - starts_[part]);
  }

  // Part after part; that of part i is from starts_[i] to starts_[i + 1].
  std::vector<uint32_t> rows_;
  std::vector<uint32_t> positions_;
  std::vector<uint32_t> starts_;
  std::vector<uint32_t> next_;  // for each part, where its next id goes
};

}  // namespace tfdist::runtime
