#include "runtime/device/cpu_device.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "runtime/common/tensor.h"

namespace tfdist::runtime {
namespace {

class CpuDeviceTest : public ::testing::Test {
 protected:
  Tensor Random(size_t count) {
    std::uniform_real_distribution<float> uniform(-1, 1);
    Tensor values(count);
    for (float& value : values) value = uniform(random_);
    return values;
  }

  template <typename T>
  Buffer Put(const std::vector<T>& values) {
    Buffer buffer(device_, values.size() * sizeof(T));
    device_.Upload(values.data(), values.size() * sizeof(T), buffer);
    return buffer;
  }

  static Tensor Fetch(const Buffer& buffer) {
    return {buffer.As<float>(), buffer.As<float>() + buffer.size_bytes() / sizeof(float)};
  }

  // Against the definition, in double; whichever way the shape is computed.
  void ExpectRightProduct(GemmShape shape) {
    const Tensor a = Random(shape.rows * shape.inner);
    const Tensor b = Random(shape.inner * shape.columns);
    const Tensor before = Random(shape.rows * shape.columns);
    Buffer c = Put(before);
    device_.Gemm(shape, Put(a), Put(b), c);
    const Tensor got = Fetch(c);
    for (size_t i = 0; i < shape.rows; ++i) {
      for (size_t j = 0; j < shape.columns; ++j) {
        const size_t at = i * shape.columns + j;
        double expected = shape.add ? before[at] : 0;
        for (size_t k = 0; k < shape.inner; ++k) {
          expected += double{shape.transpose_a ? a[k * shape.rows + i] : a[i * shape.inner + k]} *
                      (shape.transpose_b ? b[j * shape.inner + k] : b[k * shape.columns + j]);
        }
        // Sums of up to 700 products of numbers below 1, in another order.
        ASSERT_NEAR(got[at], expected, 1e-3) << i << ", " << j;
      }
    }
  }

  // The products of a fully connected layer.
  void ExpectRightLayer(size_t samples, size_t inputs, size_t outputs) {
    for (const bool add : {false, true}) {
      ExpectRightProduct({samples, outputs, inputs, false, false, add});
      ExpectRightProduct({inputs, outputs, samples, true, false, add});
      ExpectRightProduct({samples, inputs, outputs, false, true, add});
    }
  }

  CpuDevice device_;
  std::mt19937 random_{3};
};

TEST_F(CpuDeviceTest, ProductsAreRightForFewSamplesAndManyLargeAndSmall) {
  for (const size_t samples : {1, 2, 4, 5, 32}) {
    ExpectRightLayer(samples, 700, 500);
    ExpectRightLayer(samples, 64, 10);
  }
}

// Against the definition; one more column of zeros on the right than on the left.
TEST_F(CpuDeviceTest, ConvolutionMovesTheKernelOverTheImageAsItIs) {
  Buffer y(device_, 3 * sizeof(float));
  device_.Convolve({1, {1, 3, 1}, {1, 3, 1}, {.height = 1, .width = 2}}, Put<float>({1, 2, 3}),
                   Put<float>({10, 100}), Put<float>({0.5F}), y);
  EXPECT_EQ(Fetch(y), (Tensor{210.5F, 320.5F, 30.5F}));
}

// More samples than their columns fit into the work space.
TEST_F(CpuDeviceTest, ConvolutionOfManySamplesIsThatOfEach) {
  const size_t samples = 40;
  const WindowShape shape = {samples, {12, 12, 4}, {12, 12, 3}, {5, 5, 1, 2, 2}};
  const Tensor x = Random(samples * shape.input.size());
  const Buffer kernel = Put(Random(5 * 5 * 4 * 3));
  const Buffer bias = Put(Random(3));
  Buffer all(device_, samples * shape.output.size() * sizeof(float));
  device_.Convolve(shape, Put(x), kernel, bias, all);
  WindowShape of_one = shape;
  of_one.samples = 1;
  Buffer one(device_, shape.output.size() * sizeof(float));
  const Tensor got = Fetch(all);
  for (size_t s = 0; s < samples; ++s) {
    const auto begin = x.begin() + static_cast<ptrdiff_t>(s * shape.input.size());
    device_.Convolve(of_one, Put(Tensor(begin, begin + static_cast<ptrdiff_t>(shape.input.size()))),
                     kernel, bias, one);
    const Tensor expected = Fetch(one);
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(got[s * expected.size() + i], expected[i], 1e-5) << s << ", " << i;
    }
  }
}

// The derivatives of a convolution, too, are computed in groups of as many samples as the work space
// takes. Beside the definition, in double.
TEST_F(CpuDeviceTest, GradientsOfAConvolutionOfManySamplesAreThoseOfTheDefinition) {
  const size_t samples = 40;  // groups of four
  const WindowShape shape = {samples, {12, 12, 4}, {12, 12, 3}, {5, 5, 1, 2, 2}};
  const Tensor x = Random(samples * shape.input.size());
  const Tensor y_error = Random(samples * shape.output.size());
  const Tensor kernel = Random(size_t{5} * 5 * 4 * 3);
  std::vector<double> kernel_gradient(kernel.size());
  std::vector<double> x_gradient(x.size());
  const auto add = [&](size_t from, size_t weight, size_t to) {
    kernel_gradient[weight] += double{x[from]} * y_error[to];
    x_gradient[from] += double{kernel[weight]} * y_error[to];
  };
  for (size_t s = 0; s < samples; ++s) {
    for (size_t i = 0; i < 12; ++i) {
      for (size_t j = 0; j < 12; ++j) {
        for (size_t window = 0; window < 25; ++window) {
          const size_t row = i + window / 5;  // two more than in the image
          const size_t column = j + window % 5;
          if (row < 2 || row >= 14 || column < 2 || column >= 14) continue;
          for (size_t in = 0; in < 4; ++in) {
            for (size_t out = 0; out < 3; ++out) {
              add(((s * 12 + row - 2) * 12 + column - 2) * 4 + in, (window * 4 + in) * 3 + out,
                  ((s * 12 + i) * 12 + j) * 3 + out);
            }
          }
        }
      }
    }
  }
  Buffer got_kernel = Put(Tensor(kernel.size(), std::nanf("")));
  device_.ConvolveKernelGradient(shape, Put(x), Put(y_error), got_kernel);
  Buffer got_x = Put(Tensor(x.size(), std::nanf("")));
  device_.ConvolveInputGradient(shape, Put(kernel), Put(y_error), got_x);
  const Tensor kernel_floats = Fetch(got_kernel);
  for (size_t i = 0; i < kernel.size(); ++i) {
    ASSERT_NEAR(kernel_floats[i], kernel_gradient[i], 1e-3) << i;  // sums of 5,760 products
  }
  const Tensor x_floats = Fetch(got_x);
  for (size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x_floats[i], x_gradient[i], 1e-4) << i;
}

TEST_F(CpuDeviceTest, MaxPoolKnowsItsWinnersAndLetsNanThrough) {
  const WindowShape shape = {1, {2, 4, 1}, {1, 2, 1}, {2, 2, 2, 0, 0}};
  Buffer y(device_, 2 * sizeof(float));
  Buffer winners(device_, 2 * sizeof(uint32_t));
  const float nan = std::nanf("");
  device_.MaxPool(shape, Put<float>({1, 3, nan, 5, 3, 2, 9, 4}), y, winners);
  EXPECT_EQ(y.As<float>()[0], 3);
  EXPECT_EQ(winners.As<uint32_t>()[0], 1U);  // the first of two
  EXPECT_TRUE(std::isnan(y.As<float>()[1]));
  EXPECT_EQ(winners.As<uint32_t>()[1], 2U);
  device_.MaxPool(shape, Put<float>({nan, 3, 1, 5, nan, 2, nan, nan}), y, winners);
  EXPECT_EQ(winners.As<uint32_t>()[0], 0U);  // the first NaN of two
  EXPECT_EQ(winners.As<uint32_t>()[1], 6U);
}

TEST_F(CpuDeviceTest, SoftmaxIsTheSameForLogitsThatAreAllHigher) {
  Buffer logits = Put<float>({0, 1, 2, 1000, 1001, 1002});
  Buffer outcome(device_, sizeof(Outcome));
  device_.SoftmaxCrossEntropy(2, 3, Put<uint8_t>({2, 2}), logits, outcome);
  const Tensor gradient = Fetch(logits);
  EXPECT_TRUE(std::equal(gradient.begin(), gradient.begin() + 3, gradient.begin() + 3));
  EXPECT_NEAR(gradient[0] + gradient[1] + gradient[2], 0, 1e-6);
}

TEST_F(CpuDeviceTest, CrossEntropyIsTheLogarithmOfTheLabelsProbability) {
  Buffer logits = Put<float>({0, 0, 0, std::log(3.0F)});
  Buffer outcome(device_, sizeof(Outcome));
  device_.SoftmaxCrossEntropy(2, 2, Put<uint8_t>({0, 1}), logits, outcome);
  EXPECT_NEAR(outcome.As<Outcome>()->loss, std::log(2.0) + std::log(4.0 / 3), 1e-6);
  EXPECT_EQ(outcome.As<Outcome>()->right, 2U);
  const Tensor expected = {-0.25F, 0.25F, 0.125F, -0.125F};
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(Fetch(logits)[i], expected[i], 1e-6) << i;
}

TEST_F(CpuDeviceTest, CrossEntropyStaysFiniteForAProbabilityOfZero) {
  Buffer logits = Put<float>({0, 1000});
  Buffer outcome(device_, sizeof(Outcome));
  device_.SoftmaxCrossEntropy(1, 2, Put<uint8_t>({0}), logits, outcome);
  EXPECT_NEAR(outcome.As<Outcome>()->loss, -std::log(std::numeric_limits<float>::min()), 1e-3);
  EXPECT_EQ(outcome.As<Outcome>()->right, 0U);
}

}  // namespace
}  // namespace tfdist::runtime
