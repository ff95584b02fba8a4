// Sums the gradients of rows that are named more than once, before an optimizer squares or
// accumulates them: TensorFlow's _deduplicate_indexed_slices. Rows keep the order in which they
// first come, and the gradients of a row are added in the order in which they come, so that sums
// agree bit for bit.
//
// Keeps its memory from call to call, about 20 bytes per row and the sums; one per thread.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/update/optimizer.h"
#include "runtime/update/row_positions.h"

namespace tfdist::runtime {

class RowSummer {
 public:
  // Each row once. The result refers to `gradient` when it names no row twice, else to memory of
  // this object, until the next call. Takes up to 2^30 rows. Throws std::bad_alloc alone.
  RowsGradient Sum(const RowsGradient& gradient);

 private:
  RowPositions distinct_;
  std::vector<uint32_t> positions_;  // by row of the gradient
  std::vector<float> sums_;
};

}  // namespace tfdist::runtime
