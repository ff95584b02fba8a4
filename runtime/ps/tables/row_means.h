// Gradients of one table's rows that are summed until a step is due. The mean of a row is over the
// pushes that name it, as in TensorFlow's SparseConditionalAccumulator
// (core/kernels/sparse_conditional_accumulator.h): of two pushes to rows 1, 3 and 3, 5 it is row 3
// alone that is divided by two. Knows nothing of steps.
//
// Takes as much memory as the gradients of all rows that one step names, and keeps it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/update/optimizer.h"
#include "runtime/update/row_positions.h"

namespace tfdist::runtime {

class RowMeans {
 public:
  // Adds the gradient of one push, which names each row once, or none. All are of one width.
  void Add(const RowsGradient& gradient);
  // Whether something was added since the last Take(), if only a gradient of no row.
  [[nodiscard]] bool added() const { return !taken_; }
  // The means of the rows that were added since the last call, in the order in which rows and
  // gradients came. Valid until the next call.
  RowsGradient Take();

 private:
  void AddRow(uint32_t row, std::span<const float> gradient);

  RowPositions rows_;
  size_t width_ = 0;
  std::vector<float> sums_;       // by position
  std::vector<uint32_t> counts_;  // the same: pushes that named the row
  bool taken_ = true;             // what is here belongs to a step that is over
};

}  // namespace tfdist::runtime
