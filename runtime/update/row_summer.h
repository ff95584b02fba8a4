// Sums the gradients of rows that are named more than once, before an optimizer squares or
// accumulates them: TensorFlow's _deduplicate_indexed_slices. Rows keep the order in which they
// first come, and the gradients of a row are added in the order in which they come, so that sums
// agree bit for bit.
//
// Keeps its memory from call to call, about 16 bytes per row and the sums; one per thread.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/update/optimizer.h"

namespace tfdist::runtime {

class RowSummer {
 public:
  // Each row once. The result refers to `gradient` when it names no row twice, else to memory of
  // this object, until the next call. Takes up to 2^30 rows. Throws std::bad_alloc alone.
  RowsGradient Sum(const RowsGradient& gradient);

 private:
  struct Entry {
    uint32_t row = 0;
    uint32_t ticket = 0;  // below first_ticket_: left from an earlier call, hence empty
  };

  void Reserve(size_t count);
  // Where `row` stands among the distinct rows so far; the next place when it is new.
  uint32_t PositionOf(uint32_t row, uint32_t next);

  std::vector<Entry> table_;  // open addressing, a power of two, at most half full
  int shift_ = 0;             // 32 - log2 of its size
  uint32_t first_ticket_ = 1;
  std::vector<uint32_t> positions_;
  std::vector<uint32_t> rows_;
  std::vector<float> sums_;
};

}  // namespace tfdist::runtime
