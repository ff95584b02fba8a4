// The kernels, run on the CPU (testing/emulated_cuda.h), beside CpuDevice. It needs no GPU.
#include "runtime/cuda/testing/emulated_cuda.h"
// The kernels themselves, as C++:
#include <gtest/gtest.h>

#include <random>

#include "runtime/cuda/kernels.cu"
#include "runtime/device/cpu_device.h"

namespace tfdist::runtime {
namespace {

constexpr int kProcessors = 3;
constexpr float kClose =
    1e-4F;  // sums of up to 2,000 products of numbers below 1, in another order

class Kernels : public testing::Test {
 protected:
  Buffer Floats(size_t count) {
    Buffer buffer(cpu_, count * sizeof(float));
    std::uniform_real_distribution<float> uniform(-1, 1);
    for (size_t i = 0; i < count; ++i) buffer.As<float>()[i] = uniform(random_);
    return buffer;
  }
  // What was never written shows.
  Buffer Unwritten(size_t count) {
    Buffer buffer(cpu_, count * sizeof(float));
    std::fill_n(buffer.As<float>(), count, std::nanf(""));
    return buffer;
  }
  static void ExpectClose(const Buffer& got, const Buffer& expected, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      ASSERT_NEAR(got.As<float>()[i], expected.As<float>()[i], kClose) << "element " << i;
    }
  }

  CpuDevice cpu_;
  std::mt19937 random_{7};
};

cuda::Windows WindowsOf(const WindowShape& shape) {
  const auto whole = [](size_t size) { return static_cast<int>(size); };
  return {whole(shape.samples),         whole(shape.input.height),  whole(shape.input.width),
          whole(shape.input.channels),  whole(shape.output.height), whole(shape.output.width),
          whole(shape.output.channels), whole(shape.window.height), whole(shape.window.width),
          whole(shape.window.stride),   whole(shape.window.top),    whole(shape.window.left)};
}

// Small and large channels, every path of the kernels, strides, edges, windows that are not square.
const WindowShape kConvolutions[] = {
    {3, {6, 7, 1}, {6, 7, 3}, {5, 5, 1, 2, 2}},     {2, {5, 5, 8}, {5, 5, 40}, {3, 3, 1, 1, 1}},
    {2, {7, 6, 16}, {4, 3, 8}, {3, 3, 2, 1, 0}},    {1, {9, 9, 3}, {3, 3, 72}, {4, 2, 3, 1, 0}},
    {5, {4, 4, 33}, {2, 2, 5}, {3, 3, 1, 0, 0}},    {1, {1, 1, 8}, {1, 1, 16}, {1, 1, 1, 0, 0}},
    {7, {12, 12, 2}, {12, 12, 8}, {3, 5, 1, 1, 2}},
};

TEST_F(Kernels, ConvolutionsAreThoseOfTheCpu) {
  for (const WindowShape& shape : kConvolutions) {
    const size_t kernel_size =
        shape.window.height * shape.window.width * shape.input.channels * shape.output.channels;
    const size_t outputs = shape.samples * shape.output.size();
    const Buffer x = Floats(shape.samples * shape.input.size());
    const Buffer kernel = Floats(kernel_size);
    const Buffer bias = Floats(shape.output.channels);
    Buffer expected = Unwritten(outputs);
    Buffer got = Unwritten(outputs);
    cpu_.Convolve(shape, x, kernel, bias, expected);
    ASSERT_EQ(cuda::Convolve(WindowsOf(shape), x.As<float>(), kernel.As<float>(), bias.As<float>(),
                             got.As<float>(), nullptr),
              cudaSuccess);
    ExpectClose(got, expected, outputs);
  }
}

TEST_F(Kernels, GradientsOfConvolutionsAreThoseOfTheCpu) {
  for (const WindowShape& shape : kConvolutions) {
    const cuda::Windows windows = WindowsOf(shape);
    const size_t kernel_size =
        shape.window.height * shape.window.width * shape.input.channels * shape.output.channels;
    const size_t inputs = shape.samples * shape.input.size();
    const Buffer x = Floats(inputs);
    const Buffer kernel = Floats(kernel_size);
    const Buffer y_error = Floats(shape.samples * shape.output.size());

    Buffer expected = Unwritten(kernel_size);
    Buffer got = Unwritten(kernel_size);
    Buffer work = Unwritten(cuda::WorkForKernelGradient(windows, kProcessors));
    cpu_.ConvolveKernelGradient(shape, x, y_error, expected);
    ASSERT_EQ(cuda::ConvolveKernelGradient(windows, x.As<float>(), y_error.As<float>(), kProcessors,
                                           work.As<float>(), got.As<float>(), nullptr),
              cudaSuccess);
    ExpectClose(got, expected, kernel_size);

    expected = Unwritten(inputs);
    got = Unwritten(inputs);
    work = Unwritten(cuda::WorkForInputGradient(windows));
    cpu_.ConvolveInputGradient(shape, kernel, y_error, expected);
    ASSERT_EQ(cuda::ConvolveInputGradient(windows, kernel.As<float>(), y_error.As<float>(),
                                          work.As<float>(), got.As<float>(), nullptr),
              cudaSuccess);
    ExpectClose(got, expected, inputs);
  }
}

TEST_F(Kernels, TheLastConvolutionHereIsSummedInSlices) {
  const WindowShape& shape = std::end(kConvolutions)[-1];
  const size_t of_one =
      shape.window.height * shape.window.width * shape.input.channels * shape.output.channels;
  EXPECT_GT(cuda::WorkForKernelGradient(WindowsOf(shape), kProcessors), of_one);
}

TEST_F(Kernels, APixelThatIsNotANumberStaysInTheWindowsThatHaveIt) {
  const WindowShape shape{2, {4, 4, 1}, {4, 4, 1}, {3, 3, 1, 1, 1}};
  Buffer x = Floats(2 * 16);
  x.As<float>()[0] = std::nanf("");
  const Buffer kernel = Floats(9);
  const Buffer bias = Floats(1);
  Buffer y = Unwritten(2 * 16);
  ASSERT_EQ(cuda::Convolve(WindowsOf(shape), x.As<float>(), kernel.As<float>(), bias.As<float>(),
                           y.As<float>(), nullptr),
            cudaSuccess);
  for (size_t i = 0; i < 2 * 16; ++i) {
    const bool near = i < 16 && i % 4 < 2 && i / 4 < 2;
    EXPECT_EQ(std::isnan(y.As<float>()[i]), near) << i;
  }
}

TEST_F(Kernels, MaxPoolsAndTheirGradientsAreThoseOfTheCpu) {
  const WindowShape shapes[] = {{3, {8, 8, 5}, {4, 4, 5}, {2, 2, 2, 0, 0}},
                                {2, {7, 5, 3}, {3, 2, 3}, {2, 2, 2, 0, 0}},
                                {2, {6, 6, 4}, {6, 6, 4}, {3, 3, 1, 1, 1}},
                                {1, {5, 7, 2}, {3, 4, 2}, {3, 3, 2, 1, 1}}};
  for (const WindowShape& shape : shapes) {
    const size_t inputs = shape.samples * shape.input.size();
    const size_t outputs = shape.samples * shape.output.size();
    const Buffer x = Floats(inputs);
    const Buffer y_error = Floats(outputs);
    Buffer expected = Unwritten(outputs);
    Buffer expected_winners = Unwritten(outputs);
    Buffer got = Unwritten(outputs);
    Buffer winners = Unwritten(outputs);
    cpu_.MaxPool(shape, x, expected, expected_winners);
    ASSERT_EQ(cuda::MaxPool(WindowsOf(shape), x.As<float>(), got.As<float>(),
                            winners.As<uint32_t>(), nullptr),
              cudaSuccess);
    for (size_t i = 0; i < outputs; ++i) {
      ASSERT_EQ(got.As<float>()[i], expected.As<float>()[i]) << i;
      ASSERT_EQ(winners.As<uint32_t>()[i], expected_winners.As<uint32_t>()[i]) << i;
    }
    expected = Unwritten(inputs);
    got = Unwritten(inputs);
    cpu_.MaxPoolGradient(shape, winners, y_error, expected);
    ASSERT_EQ(cuda::MaxPoolGradient(WindowsOf(shape), winners.As<uint32_t>(), y_error.As<float>(),
                                    got.As<float>(), nullptr),
              cudaSuccess);
    ExpectClose(got, expected, inputs);
  }
}

// Of the emulation: what would never end is named.
TEST(EmulatedGpuDeathTest, AStreamThatWaitsForEverEndsTheTest) {
  const auto wait = [] {
    cudaStream_t recording = nullptr;
    cudaStream_t waiting = nullptr;
    cudaEvent_t event = nullptr;
    (void)cudaStreamCreateWithFlags(&recording, 0);
    (void)cudaStreamCreateWithFlags(&waiting, 0);
    (void)cudaEventCreateWithFlags(&event, 0);
    (void)cudaEventRecord(event, recording);
    (void)cudaStreamWaitEvent(waiting, event, 0);
    (void)cudaStreamDestroy(recording);
    (void)cudaStreamSynchronize(waiting);
  };
  EXPECT_DEATH(wait(), "emulated GPU: the host waits for an event that no stream comes to");
}

TEST(EmulatedGpuDeathTest, ABarrierThatNotAllThreadsComeToEndsTheTest) {
  const auto wait = [] {
    cuda::testing::RunBlocks(dim3(1), dim3(2), [] {
      if (threadIdx.x == 0) __syncthreads();
    });
  };
  EXPECT_DEATH(wait(), "emulated GPU: threads of a block wait at a barrier");
}

TEST_F(Kernels, TheFirstNotANumberWinsAMaxPoolAsOnTheCpu) {
  const WindowShape shape{1, {2, 4, 1}, {1, 2, 1}, {2, 2, 2, 0, 0}};
  Buffer x = Floats(8);
  for (const size_t i : {0, 4, 6, 7}) x.As<float>()[i] = std::nanf("");
  Buffer y = Unwritten(2);
  Buffer winners = Unwritten(2);
  Buffer expected = Unwritten(2);
  ASSERT_EQ(cuda::MaxPool(WindowsOf(shape), x.As<float>(), y.As<float>(), winners.As<uint32_t>(),
                          nullptr),
            cudaSuccess);
  cpu_.MaxPool(shape, x, y, expected);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(winners.As<uint32_t>()[i], i == 0 ? 0U : 6U);
    EXPECT_EQ(expected.As<uint32_t>()[i], winners.As<uint32_t>()[i]);
  }
}

TEST_F(Kernels, CrossEntropyIsThatOfTheCpu) {
  for (const auto& [samples, classes] : {std::pair{1, 2}, {5, 10}, {300, 10}, {9, 70}}) {
    const size_t count = static_cast<size_t>(samples) * static_cast<size_t>(classes);
    Buffer expected = Floats(count);
    Buffer got(cpu_, count * sizeof(float));
    std::copy_n(expected.As<float>(), count, got.As<float>());
    Buffer labels(cpu_, static_cast<size_t>(samples));
    for (int i = 0; i < samples; ++i) {
      labels.As<uint8_t>()[i] = static_cast<uint8_t>(i * 7 % classes);
    }
    Buffer expected_outcome(cpu_, sizeof(Outcome));
    Buffer outcome(cpu_, sizeof(Outcome));
    Buffer work = Unwritten(cuda::WorkForCrossEntropy(samples));
    cpu_.SoftmaxCrossEntropy(static_cast<size_t>(samples), static_cast<size_t>(classes), labels,
                             expected, expected_outcome);
    ASSERT_EQ(cuda::SoftmaxCrossEntropy(samples, classes, labels.As<uint8_t>(), got.As<float>(),
                                        work.As<float>(), outcome.As<void>(), nullptr),
              cudaSuccess);
    ExpectClose(got, expected, count);
    EXPECT_NEAR(outcome.As<Outcome>()->loss, expected_outcome.As<Outcome>()->loss, 1e-3);
    EXPECT_EQ(outcome.As<Outcome>()->right, expected_outcome.As<Outcome>()->right);
  }
}

TEST_F(Kernels, CrossEntropyIsFiniteForAProbabilityOfZeroAndTellsOfNotANumber) {
  Buffer logits(cpu_, 4 * sizeof(float));
  const float values[] = {0, 500, std::nanf(""), 1};
  std::copy_n(values, 4, logits.As<float>());
  Buffer labels(cpu_, 2);
  labels.As<uint8_t>()[0] = 0;
  labels.As<uint8_t>()[1] = 1;
  Buffer outcome(cpu_, sizeof(Outcome));
  Buffer work = Unwritten(cuda::WorkForCrossEntropy(2));
  ASSERT_EQ(cuda::SoftmaxCrossEntropy(2, 2, labels.As<uint8_t>(), logits.As<float>(),
                                      work.As<float>(), outcome.As<void>(), nullptr),
            cudaSuccess);
  EXPECT_TRUE(std::isfinite(work.As<float>()[0]));
  EXPECT_GT(work.As<float>()[0], 80);
  EXPECT_TRUE(std::isnan(outcome.As<Outcome>()->loss));
}

TEST_F(Kernels, RowsAreRepeatedAndSummedAsOnTheCpu) {
  for (const auto& [rows, columns] :
       {std::pair{1, 1}, {5, 10}, {64, 33}, {700, 10}, {130, 96}, {2000, 1}}) {
    const auto height = static_cast<size_t>(rows);
    const auto width = static_cast<size_t>(columns);
    const Buffer row = Floats(width);
    Buffer expected = Unwritten(height * width);
    Buffer got = Unwritten(height * width);
    cpu_.RepeatRow(row, height, width, expected);
    ASSERT_EQ(cuda::RepeatRow(row.As<float>(), rows, columns, got.As<float>(), nullptr),
              cudaSuccess);
    ExpectClose(got, expected, height * width);

    const Buffer matrix = Floats(height * width);
    Buffer expected_sum = Unwritten(width);
    Buffer sum = Unwritten(width);
    Buffer work = Unwritten(cuda::WorkForSumOfRows(rows, columns, kProcessors));
    cpu_.SumRows(matrix, height, width, expected_sum);
    ASSERT_EQ(cuda::SumRows(matrix.As<float>(), rows, columns, kProcessors, work.As<float>(),
                            sum.As<float>(), nullptr),
              cudaSuccess);
    ExpectClose(sum, expected_sum, width);
  }
}

TEST_F(Kernels, ReluAndItsGradientAreThoseOfTheCpuAndKeepWhatIsNotANumber) {
  constexpr size_t kCount = 1000;
  Buffer expected = Floats(kCount);
  expected.As<float>()[3] = std::nanf("");
  Buffer got(cpu_, kCount * sizeof(float));
  std::copy_n(expected.As<float>(), kCount, got.As<float>());
  cpu_.Relu(kCount, expected);
  ASSERT_EQ(cuda::Relu(kCount, got.As<float>(), nullptr), cudaSuccess);
  EXPECT_TRUE(std::isnan(got.As<float>()[3]));
  expected.As<float>()[3] = got.As<float>()[3] = 0;
  ExpectClose(got, expected, kCount);

  Buffer expected_errors = Floats(kCount);
  Buffer errors(cpu_, kCount * sizeof(float));
  std::copy_n(expected_errors.As<float>(), kCount, errors.As<float>());
  cpu_.ReluGradient(kCount, expected, expected_errors);
  ASSERT_EQ(cuda::ReluGradient(kCount, got.As<float>(), errors.As<float>(), nullptr), cudaSuccess);
  ExpectClose(errors, expected_errors, kCount);
}

}  // namespace
}  // namespace tfdist::runtime
