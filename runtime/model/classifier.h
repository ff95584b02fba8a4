// What the trainer asks of a model: which variables it has, and what a batch says about them.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/common/tensor.h"
#include "runtime/data/dataset.h"

namespace tfdist::runtime {

struct Quality {
  double loss = 0;  // mean cross-entropy
  double accuracy = 0;
};

// One thread at a time: a model keeps work space between calls.
class Classifier {
 public:
  virtual ~Classifier() = default;

  // In the order of creation, which decides on placement.
  [[nodiscard]] virtual const std::vector<TensorSpec>& variables() const = 0;
  // Values to begin with: the same for the same seed.
  [[nodiscard]] virtual Tensors InitialValues(uint64_t seed) const = 0;
  // Mean cross-entropy of the batch; `gradients` (shaped as `values`) become its derivatives.
  virtual float Gradients(const Tensors& values, const Batch& batch, Tensors& gradients) = 0;
  // Over the batch, without gradients.
  virtual Quality Evaluate(const Tensors& values, const Batch& batch) = 0;
};

}  // namespace tfdist::runtime
