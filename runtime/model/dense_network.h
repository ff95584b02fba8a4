// Fully connected layers with ReLU between them and softmax with cross-entropy at the end. Without
// a hidden layer it is softmax regression. CPU, OpenBLAS.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "runtime/model/classifier.h"

namespace tfdist::runtime {

class DenseNetwork : public Classifier {
 public:
  // Widths from input to output: {64, 128, 10} has one hidden layer; {64, 10} none. Variables are
  // dense0/kernel [64,128], dense0/bias [128], dense1/kernel [128,10], dense1/bias [10].
  explicit DenseNetwork(std::vector<size_t> widths);

  [[nodiscard]] const std::vector<TensorSpec>& variables() const override { return variables_; }
  [[nodiscard]] Tensors InitialValues(uint64_t seed) const override;
  float Gradients(const Tensors& values, const Batch& batch, Tensors& gradients) override;
  Quality Evaluate(const Tensors& values, const Batch& batch) override;

 private:
  [[nodiscard]] size_t layers() const { return widths_.size() - 1; }
  [[nodiscard]] std::span<const float> InputOf(size_t layer, const Batch& batch) const;
  void Forward(const Tensors& values, const Batch& batch);
  void Backward(const Tensors& values, const Batch& batch, Tensors& gradients);

  std::vector<size_t> widths_;
  std::vector<TensorSpec> variables_;
  Tensors outputs_;  // of each layer, for the batch at hand; the last: logits, then probabilities
  Tensors errors_;   // derivative of the loss by each layer's output before ReLU
};

}  // namespace tfdist::runtime
