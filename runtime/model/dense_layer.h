// The arithmetic of one fully connected layer. Matrices are row-major; a row of `x`, `y` is one
// sample.
#pragma once

#include <cstddef>
#include <span>

namespace tfdist::runtime {

struct LayerShape {
  size_t samples = 0;
  size_t inputs = 0;
  size_t outputs = 0;
};

// y = x * kernel + bias
void DenseForward(const LayerShape& shape, std::span<const float> x, std::span<const float> kernel,
                  std::span<const float> bias, std::span<float> y);

// From the derivative by y: kernel_gradient = x^T * y_error, bias_gradient = column sums of
// y_error.
void DenseGradients(const LayerShape& shape, std::span<const float> x,
                    std::span<const float> y_error, std::span<float> kernel_gradient,
                    std::span<float> bias_gradient);

// The derivative by x: x_error = y_error * kernel^T
void DenseBackward(const LayerShape& shape, std::span<const float> y_error,
                   std::span<const float> kernel, std::span<float> x_error);

}  // namespace tfdist::runtime
