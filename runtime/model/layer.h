// One layer of a model: some variables, what it makes of a batch, and the derivatives of that. A new
// layer is a class of its own with a test that calls testing::ExpectTrueGradients.
//
// A batch is a matrix with one sample a row; a sample is an image (row-major, channels last), which
// for Dense is a vector. Values, gradients and batches are memory of a device (runtime/device).
#pragma once

#include <cstddef>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/common/tensor.h"
#include "runtime/device/device.h"
#include "runtime/device/mirror.h"

namespace tfdist::runtime {

// What a layer works with in one call. Its own variables alone, in the order of variables().
struct Pass {
  Device& device;
  size_t samples = 0;
  std::span<const Mirror> values;
  std::span<Mirror> gradients;  // of Backward alone
};

// Keeps on the device what Backward needs of the Forward before it. One thread at a time.
class Layer {
 public:
  Layer(ImageShape input, ImageShape output) : input_(input), output_(output) {}
  virtual ~Layer() = default;

  // Of one sample.
  [[nodiscard]] const ImageShape& input() const { return input_; }
  [[nodiscard]] const ImageShape& output() const { return output_; }
  // In the order of creation, which decides on placement. The first part of their names is the
  // layer's: "dense0/kernel".
  [[nodiscard]] const std::vector<TensorSpec>& variables() const { return variables_; }
  // Changes those of its values that do not begin as zeros.
  virtual void FillInitialValues(std::span<Tensor> /*values*/, std::mt19937_64& /*random*/) const {}

  // The output takes the place of the input, and x_error that of y_error: each pair is one buffer.
  // Only for layers whose Backward can do with x as Forward has left it. The first layer of a model
  // is none of them.
  [[nodiscard]] virtual bool in_place() const { return false; }

  virtual void Forward(const Pass& pass, const Buffer& x, Buffer& y) = 0;
  // From the derivative of the loss by y: sets pass.gradients and, unless it is nullptr (nobody
  // asks), the derivative by x. x is what Forward was given.
  virtual void Backward(const Pass& pass, const Buffer& x, const Buffer& y_error,
                        Buffer* x_error) = 0;

 protected:
  void AddVariable(std::string name, std::vector<uint32_t> shape) {
    variables_.push_back({std::move(name), std::move(shape)});
  }

 private:
  ImageShape input_;
  ImageShape output_;
  std::vector<TensorSpec> variables_;
};

}  // namespace tfdist::runtime
