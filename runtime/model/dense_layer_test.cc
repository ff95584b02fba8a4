#include "runtime/model/dense_layer.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <random>
#include <vector>

namespace tfdist::runtime {
namespace {

using Matrix = std::vector<float>;

Matrix Random(size_t rows, size_t columns, std::mt19937& random) {
  std::uniform_real_distribution<float> uniform(-1, 1);
  Matrix matrix(rows * columns);
  for (float& value : matrix) value = uniform(random);
  return matrix;
}

// Sums of up to 700 products of numbers below 1, in another order.
constexpr float kClose = 1e-3F;

void ExpectClose(const Matrix& values, const std::vector<double>& expected) {
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(values[i], expected[i], kClose) << i;
}

// Against the definition, in double; whichever way the shape is computed.
void ExpectRight(const LayerShape& shape) {
  std::mt19937 random(3);
  const Matrix x = Random(shape.samples, shape.inputs, random);
  const Matrix kernel = Random(shape.inputs, shape.outputs, random);
  const Matrix bias = Random(1, shape.outputs, random);
  const Matrix y_error = Random(shape.samples, shape.outputs, random);
  std::vector<double> y(shape.samples * shape.outputs);
  std::vector<double> x_error(x.size());
  std::vector<double> kernel_gradient(kernel.size());
  for (size_t s = 0; s < shape.samples; ++s) {
    for (size_t o = 0; o < shape.outputs; ++o) y[s * shape.outputs + o] = bias[o];
    for (size_t i = 0; i < shape.inputs; ++i) {
      for (size_t o = 0; o < shape.outputs; ++o) {
        const double error = y_error[s * shape.outputs + o];
        y[s * shape.outputs + o] += x[s * shape.inputs + i] * kernel[i * shape.outputs + o];
        x_error[s * shape.inputs + i] += error * kernel[i * shape.outputs + o];
        kernel_gradient[i * shape.outputs + o] += error * x[s * shape.inputs + i];
      }
    }
  }
  Matrix got(y.size());
  DenseForward(shape, x, kernel, bias, got);
  ExpectClose(got, y);
  got.assign(x.size(), 99);
  DenseBackward(shape, y_error, kernel, got);
  ExpectClose(got, x_error);
  got.assign(kernel.size(), 99);
  Matrix bias_gradient(shape.outputs);
  DenseGradients(shape, x, y_error, got, bias_gradient);
  ExpectClose(got, kernel_gradient);
}

TEST(DenseLayer, IsRightForFewSamplesAndManyLargeAndSmall) {
  for (const size_t samples : {1, 2, 4, 5, 32}) {
    ExpectRight({samples, 700, 500});
    ExpectRight({samples, 64, 10});
  }
}

}  // namespace
}  // namespace tfdist::runtime
