// Numbers the distinct rows of gradients in the order in which they first come.
//
// Keeps its memory, about 20 bytes per row, from one Clear() to the next. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tfdist::runtime {

class RowPositions {
 public:
  // Forgets all rows.
  void Clear();
  // Makes room for `more` rows: at most 2^30 in all. Throws std::bad_alloc alone.
  void Reserve(size_t more);
  // Where `row` stands among rows(); it is the last one now when it is new. There must be room.
  uint32_t Of(uint32_t row);
  [[nodiscard]] std::span<const uint32_t> rows() const { return rows_; }

 private:
  struct Entry {
    uint32_t row = 0;
    uint32_t ticket = 0;  // below first_ticket_: left from before Clear(), hence empty
  };

  void Grow(size_t entries);

  std::vector<uint32_t> rows_;
  std::vector<Entry> table_;  // open addressing, a power of two, at most half full
  int shift_ = 0;             // 32 - log2 of its size
  uint32_t first_ticket_ = 1;
};

}  // namespace tfdist::runtime
