// Every operation, layer and model on a GPU beside the CPU. cuda_device_test is skipped, with CUDA's
// reason, where there is no GPU; scripts/gpu-test runs it. cuda_emulated_test is the same on an
// emulated GPU (testing/): kernels and streams run on the CPU.
#include "runtime/cuda/cuda_device.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/testing/test_paths.h"
#include "runtime/cuda/gpus.h"
#include "runtime/device/cpu_device.h"
#include "runtime/model/conv2d.h"
#include "runtime/model/dense.h"
#include "runtime/model/max_pool.h"
#include "runtime/model/models.h"
#include "runtime/model/testing/gradient_check.h"
#include "runtime/program/testing/job.h"

namespace tfdist::runtime {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

#ifdef TFDIST_EMULATED_GPU
constexpr bool kEmulated = true;  // and slow: smaller shapes
#else
constexpr bool kEmulated = false;
#endif
constexpr size_t kSamples = kEmulated ? 2 : 70;

// Of what the CPU has, relative to the largest value of it: both add the same products in float32, in
// different orders. A wrong index is off by about 1.
constexpr double kTolerance = 1e-4;

class CudaDeviceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      cuda::RequireGpu(cuda::CountGpus(), 0);
    } catch (const Error& error) {
      GTEST_SKIP() << error.cause();
    }
    gpu_ = std::make_unique<cuda::CudaDevice>(0);
  }

  std::vector<float> Random(size_t count) {
    std::uniform_real_distribution<float> uniform(-1, 1);
    std::vector<float> values(count);
    for (float& value : values) value = uniform(random_);
    return values;
  }
  template <typename T>
  static Buffer Put(Device& device, const std::vector<T>& values) {
    Buffer buffer(device, values.size() * sizeof(T));
    device.Upload(values.data(), values.size() * sizeof(T), buffer);
    return buffer;
  }
  static Buffer Unwritten(Device& device, size_t count) {
    return Put(device, std::vector<float>(count, std::nanf("")));
  }
  template <typename T = float>
  static std::vector<T> Fetch(Device& device, const Buffer& buffer) {
    std::vector<T> values(buffer.size_bytes() / sizeof(T));
    device.Wait(device.Download(buffer, buffer.size_bytes(), values.data()));
    return values;
  }

  // `compute` gives what it has made on the device that it is given: on both devices the same.
  template <typename Compute>
  void ExpectSame(Compute compute, const std::string& what) {
    CpuDevice cpu;
    const std::mt19937 before = random_;
    const std::vector<float> expected = compute(cpu);
    random_ = before;
    ExpectClose(compute(*gpu_), expected, kTolerance, what);
  }
  template <typename Values>
  static void ExpectClose(const Values& got, const Values& expected, double tolerance,
                          const std::string& what) {
    ASSERT_EQ(got.size(), expected.size()) << what;
    double scale = 1e-6;
    for (const float value : expected) scale = std::max(scale, std::abs(double{value}));
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(got[i], expected[i], tolerance * scale) << what << ", element " << i;
    }
  }

  std::unique_ptr<cuda::CudaDevice> gpu_;
  std::mt19937 random_{11};
};

TEST_F(CudaDeviceTest, ProductsOfMatricesAreThoseOfTheCpu) {
  for (const auto& [rows, columns, inner] :
       {std::array<size_t, 3>{1, 1, 1}, {5, 7, 3}, {64, 10, 128}, {1024, 300, 784}}) {
    for (const bool transpose_a : {false, true}) {
      for (const bool transpose_b : {false, true}) {
        for (const bool add : {false, true}) {
          const GemmShape shape{rows, columns, inner, transpose_a, transpose_b, add};
          ExpectSame(
              [&, this](Device& device) {
                const Buffer a = Put(device, Random(shape.rows * shape.inner));
                const Buffer b = Put(device, Random(shape.inner * shape.columns));
                Buffer c = Put(device, Random(shape.rows * shape.columns));
                device.Gemm(shape, a, b, c);
                return Fetch(device, c);
              },
              "Gemm");
        }
      }
    }
  }
}

TEST_F(CudaDeviceTest, RowsAreRepeatedAndSummedAsOnTheCpu) {
  for (const auto& shape : {std::pair<size_t, size_t>{1, 1},
                            {1024, 10},
                            {kEmulated ? 10 : 1000, 3072},
                            {kEmulated ? 2000 : 200'000, 33}}) {
    const size_t rows = shape.first;
    const size_t columns = shape.second;
    ExpectSame(
        [&, this](Device& device) {
          const Buffer row = Put(device, Random(columns));
          Buffer to = Unwritten(device, rows * columns);
          device.RepeatRow(row, rows, columns, to);
          return Fetch(device, to);
        },
        "RepeatRow");
    ExpectSame(
        [&, this](Device& device) {
          const Buffer matrix = Put(device, Random(rows * columns));
          Buffer sum = Unwritten(device, columns);
          device.SumRows(matrix, rows, columns, sum);
          return Fetch(device, sum);
        },
        "SumRows");
  }
}

TEST_F(CudaDeviceTest, ReluAndItsGradientAreThoseOfTheCpu) {
  constexpr size_t kCount = kEmulated ? 30'001 : 3'000'001;
  ExpectSame(
      [&, this](Device& device) {
        Buffer values = Put(device, Random(kCount));
        Buffer errors = Put(device, Random(kCount));
        device.Relu(kCount, values);
        device.ReluGradient(kCount, values, errors);
        std::vector<float> both = Fetch(device, values);
        const std::vector<float> rest = Fetch(device, errors);
        both.insert(both.end(), rest.begin(), rest.end());
        return both;
      },
      "ReLU");
}

// Small and large channels, strides, edges, windows that are not square; the CNN's own layers last.
const WindowShape kConvolutions[] = {
    {3, {6, 7, 1}, {6, 7, 3}, {5, 5, 1, 2, 2}},
    {2, {5, 5, 8}, {5, 5, 40}, {3, 3, 1, 1, 1}},
    {2, {7, 6, 16}, {4, 3, 8}, {3, 3, 2, 1, 0}},
    {1, {9, 9, 3}, {3, 3, 72}, {4, 2, 3, 1, 0}},
    {5, {4, 4, 33}, {2, 2, 5}, {3, 3, 1, 0, 0}},
    {kSamples, {28, 28, 1}, {28, 28, 32}, {5, 5, 1, 2, 2}},
    {kSamples, {14, 14, 32}, {14, 14, 64}, {5, 5, 1, 2, 2}},
};

TEST_F(CudaDeviceTest, ConvolutionsAndTheirGradientsAreThoseOfTheCpu) {
  for (const WindowShape& shape : kConvolutions) {
    const size_t kernel_size =
        shape.window.height * shape.window.width * shape.input.channels * shape.output.channels;
    const size_t inputs = shape.samples * shape.input.size();
    const size_t outputs = shape.samples * shape.output.size();
    ExpectSame(
        [&, this](Device& device) {
          const Buffer x = Put(device, Random(inputs));
          const Buffer kernel = Put(device, Random(kernel_size));
          const Buffer bias = Put(device, Random(shape.output.channels));
          Buffer y = Unwritten(device, outputs);
          device.Convolve(shape, x, kernel, bias, y);
          return Fetch(device, y);
        },
        "Convolve");
    ExpectSame(
        [&, this](Device& device) {
          const Buffer x = Put(device, Random(inputs));
          const Buffer y_error = Put(device, Random(outputs));
          Buffer gradient = Unwritten(device, kernel_size);
          device.ConvolveKernelGradient(shape, x, y_error, gradient);
          return Fetch(device, gradient);
        },
        "ConvolveKernelGradient");
    ExpectSame(
        [&, this](Device& device) {
          const Buffer kernel = Put(device, Random(kernel_size));
          const Buffer y_error = Put(device, Random(outputs));
          Buffer x_error = Unwritten(device, inputs);
          device.ConvolveInputGradient(shape, kernel, y_error, x_error);
          return Fetch(device, x_error);
        },
        "ConvolveInputGradient");
  }
}

TEST_F(CudaDeviceTest, MaxPoolsAndTheirGradientsAreThoseOfTheCpu) {
  const WindowShape shapes[] = {{kSamples, {28, 28, 32}, {14, 14, 32}, {2, 2, 2, 0, 0}},
                                {2, {7, 5, 3}, {3, 2, 3}, {2, 2, 2, 0, 0}},
                                {2, {6, 6, 4}, {6, 6, 4}, {3, 3, 1, 1, 1}},
                                {1, {5, 7, 2}, {3, 4, 2}, {3, 3, 2, 1, 1}}};
  for (const WindowShape& shape : shapes) {
    const size_t outputs = shape.samples * shape.output.size();
    ExpectSame(
        [&, this](Device& device) {
          const Buffer x = Put(device, Random(shape.samples * shape.input.size()));
          const Buffer y_error = Put(device, Random(outputs));
          Buffer y = Unwritten(device, outputs);
          Buffer winners(device, outputs * sizeof(uint32_t));
          Buffer x_error = Unwritten(device, shape.samples * shape.input.size());
          device.MaxPool(shape, x, y, winners);
          device.MaxPoolGradient(shape, winners, y_error, x_error);
          std::vector<float> all = Fetch(device, y);
          for (const uint32_t place : Fetch<uint32_t>(device, winners)) {
            all.push_back(static_cast<float>(place));
          }
          const std::vector<float> rest = Fetch(device, x_error);
          all.insert(all.end(), rest.begin(), rest.end());
          return all;
        },
        "MaxPool");
  }
}

TEST_F(CudaDeviceTest, CrossEntropyIsThatOfTheCpu) {
  for (const auto& shape :
       {std::pair<size_t, size_t>{1, 2}, {1024, 10}, {kEmulated ? 700 : 65'536, 10}, {33, 200}}) {
    const size_t samples = shape.first;
    const size_t classes = shape.second;
    std::vector<uint8_t> label(samples);
    for (size_t i = 0; i < samples; ++i) label[i] = static_cast<uint8_t>(i * 7 % classes);
    double right[2] = {};
    int run = 0;
    ExpectSame(
        [&, this](Device& device) {
          const Buffer labels = Put(device, label);
          Buffer logits = Put(device, Random(samples * classes));
          Buffer outcome(device, sizeof(Outcome));
          device.SoftmaxCrossEntropy(samples, classes, labels, logits, outcome);
          const Outcome sums = Fetch<Outcome>(device, outcome)[0];
          right[run++] = static_cast<double>(sums.right);
          std::vector<float> all = Fetch(device, logits);
          all.push_back(static_cast<float>(sums.loss / static_cast<double>(samples)));
          return all;
        },
        "SoftmaxCrossEntropy");
    // Two probabilities that are alike may change their order.
    EXPECT_NEAR(right[0], right[1], 1 + 1e-3 * static_cast<double>(samples));
  }
}

TEST_F(CudaDeviceTest, WhatIsNotANumberIsNotLost) {
  std::vector<float> values = Random(1000);
  values[77] = std::nanf("");
  Buffer on_gpu = Put(*gpu_, values);
  gpu_->Relu(values.size(), on_gpu);
  EXPECT_TRUE(std::isnan(Fetch(*gpu_, on_gpu)[77]));
  Buffer logits = Put(*gpu_, values);
  Buffer outcome(*gpu_, sizeof(Outcome));
  gpu_->SoftmaxCrossEntropy(100, 10, Put(*gpu_, std::vector<uint8_t>(100, 3)), logits, outcome);
  EXPECT_TRUE(std::isnan(Fetch<Outcome>(*gpu_, outcome)[0].loss));
}

// Gives the same floats every time: no kernel adds in an order that chance decides.
TEST_F(CudaDeviceTest, AGradientIsTheSameWheneverItIsComputed) {
  const WindowShape& shape = std::end(kConvolutions)[-1];
  const Buffer x = Put(*gpu_, Random(shape.samples * shape.input.size()));
  const Buffer y_error = Put(*gpu_, Random(shape.samples * shape.output.size()));
  Buffer gradient = Unwritten(*gpu_, 25 * shape.input.channels * shape.output.channels);
  std::vector<float> first;
  for (int i = 0; i < 20; ++i) {
    gpu_->ConvolveKernelGradient(shape, x, y_error, gradient);
    const std::vector<float> again = Fetch(*gpu_, gradient);
    if (i == 0) first = again;
    ASSERT_EQ(again, first) << i;
  }
}

TEST_F(CudaDeviceTest, CopiesAndOperationsTakeEffectInTheOrderOfTheCalls) {
  constexpr size_t kSide = kEmulated ? 64 : 1024;
  Buffer host = Buffer::ForHost(*gpu_, kSide * kSide * sizeof(float));
  Buffer back = Buffer::ForHost(*gpu_, kSide * kSide * sizeof(float));
  Buffer a(*gpu_, kSide * kSide * sizeof(float));
  Buffer b(*gpu_, kSide * kSide * sizeof(float));
  std::vector<float> identity(kSide * kSide);
  for (size_t i = 0; i < kSide; ++i) identity[i * kSide + i] = 1;
  const Buffer one = Put(*gpu_, identity);
  for (int round = 1; round < 30; ++round) {
    std::fill_n(host.As<float>(), kSide * kSide, static_cast<float>(round));
    gpu_->Upload(host.As<float>(), host.size_bytes(), a);  // must wait for the product before it
    gpu_->Gemm({.rows = kSide, .columns = kSide, .inner = kSide}, a, one, b);
    const Device::Mark mark = gpu_->Download(b, b.size_bytes(), back.As<float>());
    gpu_->Relu(kSide * kSide, b);  // and this for the copy
    gpu_->Wait(mark);
    ASSERT_TRUE(gpu_->HasPassed(mark));
    for (const size_t at : {size_t{0}, kSide * kSide / 2, kSide * kSide - 1}) {
      ASSERT_EQ(back.As<float>()[at], static_cast<float>(round)) << at;
    }
  }
}

// Each in a stream of its own.
TEST_F(CudaDeviceTest, CopiesOfOneBufferInBothDirectionsTakeEffectInTheOrderOfTheCalls) {
  constexpr size_t kFloats = kEmulated ? 4096 : 1 << 20;
  constexpr size_t kBytes = kFloats * sizeof(float);
  Buffer a(*gpu_, kBytes);
  const Buffer three = Put(*gpu_, std::vector<float>(kFloats, 3));
  std::vector<Buffer> ones_and_twos;
  for (int i = 0; i < 2; ++i) {
    ones_and_twos.push_back(Buffer::ForHost(*gpu_, kBytes));
    std::fill_n(ones_and_twos.back().As<float>(), kFloats, static_cast<float>(i + 1));
  }
  std::vector<Buffer> back;
  for (int i = 0; i < 3; ++i) back.push_back(Buffer::ForHost(*gpu_, kBytes));
  for (int round = 0; round < 10; ++round) {
    Device::Mark mark = 0;
    for (int i = 0; i < 2; ++i) {
      gpu_->Upload(ones_and_twos[i].As<float>(), kBytes, a);
      mark = gpu_->Download(a, kBytes, back[i].As<float>());
    }
    gpu_->RepeatRow(three, 1, kFloats, a);
    gpu_->Wait(mark);
    gpu_->Wait(gpu_->Download(a, kBytes, back[2].As<float>()));
    for (int i = 0; i < 3; ++i) {
      const float* const values = back[i].As<float>();
      const auto expected = static_cast<float>(i + 1);
      ASSERT_TRUE(std::all_of(values, values + kFloats, [&](float value) {
        return value == expected;
      })) << i;
    }
  }
}

TEST_F(CudaDeviceTest, AnUploadWaitsForWhatStillReadsTheBuffer) {
  constexpr size_t kWide = kEmulated ? 64 : 1024;
  constexpr size_t kBytes = kWide * kWide * sizeof(float);
  std::vector<float> identity(kWide * kWide);
  for (size_t i = 0; i < kWide; ++i) identity[i * kWide + i] = 1;
  const Buffer one = Put(*gpu_, identity);
  Buffer a(*gpu_, kBytes);
  std::vector<Buffer> hosts;
  std::vector<Buffer> products;
  for (int i = 0; i < 8; ++i) {
    hosts.push_back(Buffer::ForHost(*gpu_, kBytes));
    products.emplace_back(*gpu_, kBytes);
    std::fill_n(hosts.back().As<float>(), kWide * kWide, static_cast<float>(i));
  }
  for (size_t i = 0; i < products.size(); ++i) {  // nothing is waited for
    gpu_->Upload(hosts[i].As<float>(), kBytes, a);
    gpu_->Gemm({.rows = kWide, .columns = kWide, .inner = kWide}, a, one, products[i]);
  }
  for (size_t i = 0; i < products.size(); ++i) {
    EXPECT_THAT(Fetch(*gpu_, products[i]), ::testing::Each(static_cast<float>(i)));
  }
}

TEST_F(CudaDeviceTest, MemoryOfTheHostMayBeChangedOnceUploadHasReturned) {
  constexpr size_t kCount = 1 << 20;
  std::vector<float> values(kCount);
  std::vector<Buffer> buffers;
  for (int i = 0; i < 8; ++i) {
    std::fill(values.begin(), values.end(), static_cast<float>(i));
    buffers.emplace_back(*gpu_, kCount * sizeof(float));
    gpu_->Upload(values.data(), kCount * sizeof(float), buffers.back());
  }
  for (int i = 0; i < 8; ++i) {
    EXPECT_TRUE(Fetch(*gpu_, buffers[static_cast<size_t>(i)]) ==
                std::vector<float>(kCount, static_cast<float>(i)))
        << i;
  }
}

TEST_F(CudaDeviceTest, LayersHaveTrueGradients) {
  Conv2d convolution("conv", {6, 5, 2}, {.filters = 3, .size = 3});
  testing::ExpectTrueGradients(*gpu_, convolution, 3);
  Dense dense("dense", {1, 1, 7}, 5);
  testing::ExpectTrueGradients(*gpu_, dense, 4);
  MaxPool pool({6, 6, 3}, 2, 2, Padding::kValid);
  testing::ExpectTrueGradients(*gpu_, pool, 2);
}

constexpr size_t kSide = kEmulated ? 12 : 28;

struct Case {
  ModelSpec spec;
  ImageShape image;
};
const Case kModels[] = {{{.kind = "softmax"}, {8, 8, 1}},
                        {{.kind = "mlp", .hidden = {128, 64}}, {8, 8, 1}},
                        {{.kind = "cnn", .hidden = {128}, .filters = {32, 64}}, {kSide, kSide, 1}},
                        {{.kind = "cnn", .hidden = {16}, .filters = {5, 7}}, {9, 10, 1}}};
constexpr size_t kClasses = 10;

// Pixels in steps of 1/16 and weights in steps of 1/256 make the sums of both convolutions exact, in
// any order. A MaxPool then takes the same pixels on both devices; of sums that differ by a rounding
// it now and then takes another one, and a whole gradient goes elsewhere.
Tensor Rounded(Tensor values, float steps) {
  for (float& value : values) value = std::round(value * steps) / steps;
  return values;
}

struct Step {
  float loss = 0;
  Tensors gradients;
};

Step StepFrom(const Tensors& values, const Batch& batch, Sequential& model) {
  for (size_t i = 0; i < values.size(); ++i) {
    std::ranges::copy(Rounded(values[i], 256), model.values()[i].begin());
  }
  Step step{.loss = model.Gradients(batch), .gradients = {}};
  for (const auto& gradient : model.gradients()) {
    step.gradients.emplace_back(gradient.begin(), gradient.end());
  }
  return step;
}

TEST_F(CudaDeviceTest, TenStepsOfEachModelAreThoseOfTheCpu) {
  for (const Case& model_case : kModels) {
    const std::string what = ToString(model_case.spec, model_case.image, kClasses);
    CpuDevice cpu;
    Sequential on_cpu = MakeModel(model_case.spec, model_case.image, kClasses, cpu);
    Sequential on_gpu = MakeModel(model_case.spec, model_case.image, kClasses, *gpu_);
    Batch batch = testing::RandomBatch(kEmulated ? 4 : 64, model_case.image.size(), kClasses);
    batch.pixels = Rounded(std::move(batch.pixels), 16);
    Tensors values = on_cpu.InitialValues(3);
    std::vector<float> losses;
    for (int step = 0; step < 10; ++step) {
      const Step expected = StepFrom(values, batch, on_cpu);
      const Step got = StepFrom(values, batch, on_gpu);
      losses.push_back(got.loss);
      EXPECT_NEAR(got.loss, expected.loss, kTolerance * expected.loss) << what;
      for (size_t i = 0; i < values.size(); ++i) {
        ExpectClose(got.gradients[i], expected.gradients[i], kTolerance, what);
        for (size_t k = 0; k < values[i].size(); ++k) {
          values[i][k] -= 0.05F * expected.gradients[i][k];
        }
      }
    }
    EXPECT_LT(losses.back(), losses.front()) << what;
    const Quality expected = on_cpu.Evaluate(batch);
    const Quality got = on_gpu.Evaluate(batch);
    EXPECT_NEAR(got.loss, expected.loss, kTolerance * expected.loss) << what;
    EXPECT_NEAR(got.accuracy, expected.accuracy, 0.05) << what;
  }
}

// What a trainer does: values are filled in when they are asked for, gradients are taken when they
// are told of, and both are overwritten in every step.
TEST_F(CudaDeviceTest, GradientsAreThereWhenTheyAreToldOf) {
  const Case& model_case = kModels[2];
  Sequential model = MakeModel(model_case.spec, model_case.image, kClasses, *gpu_);
  const Tensors first = model.InitialValues(3);
  const Batch batch = testing::RandomBatch(kEmulated ? 4 : 256, model_case.image.size(), kClasses);
  for (int step = 0; step < 5; ++step) {
    std::vector<std::vector<float>> told(first.size());
    const auto fill_values = [&](LayerVariables variables) {
      for (size_t i = variables.first; i < variables.first + variables.count; ++i) {
        std::copy(first[i].begin(), first[i].end(), model.values()[i].begin());
        for (float& value : model.values()[i]) value *= 1 + 0.1F * static_cast<float>(step);
      }
    };
    float told_loss = 0;
    model.Forward(batch, fill_values);
    const auto take_gradients = [&](size_t variable, size_t floats) {
      std::vector<float>& there = told[variable];
      const auto piece = static_cast<ptrdiff_t>(there.size());
      ASSERT_GT(floats, there.size());
      // As a server's answer does.
      std::fill(model.values()[variable].begin() + piece,
                model.values()[variable].begin() + static_cast<ptrdiff_t>(floats), std::nanf(""));
      there.insert(there.end(), model.gradients()[variable].begin() + piece,
                   model.gradients()[variable].begin() + static_cast<ptrdiff_t>(floats));
    };
    const float loss = model.Backward([&](float now) { told_loss = now; }, take_gradients);
    EXPECT_TRUE(std::isfinite(loss));
    EXPECT_EQ(told_loss, loss);
    for (size_t i = 0; i < first.size(); ++i) {
      EXPECT_EQ(told[i],
                std::vector<float>(model.gradients()[i].begin(), model.gradients()[i].end()))
          << i;
    }
  }
}

// Piece by piece, while the step before is still computed; and those of the step after as ever.
TEST_F(CudaDeviceTest, ValuesThatWereTakenAreNotCopiedAgain) {
  const Case& model_case = kModels[0];
  Sequential model = MakeModel(model_case.spec, model_case.image, kClasses, *gpu_);
  const Tensors first = model.InitialValues(3);
  const Batch batch = testing::RandomBatch(64, model_case.image.size(), kClasses);
  const auto fill = [&](float factor) {
    for (size_t i = 0; i < first.size(); ++i) {
      std::ranges::transform(first[i], model.values()[i].begin(),
                             [&](float value) { return factor * value; });
    }
  };
  const auto step = [&] {
    model.Forward(batch, [](LayerVariables) {});
    return model.Backward([](float) {}, [](size_t, size_t) {});
  };
  fill(1);
  const float expected = step();
  fill(2);
  const float other = step();
  ASSERT_NE(expected, other);
  fill(1);
  for (size_t i = 0; i < first.size(); ++i) {
    const std::span<const float> values = model.values()[i];
    const size_t half = values.size() / 2;
    model.TakeValues(i, values.subspan(half));
    model.TakeValues(i, values.first(half));
  }
  (void)Fetch(*gpu_, Put(*gpu_, std::vector<float>(1)));  // and waits for all before it
  fill(std::nanf(""));
  EXPECT_EQ(step(), expected);
  fill(2);
  EXPECT_EQ(step(), other);
}

// Which is copied while the one before it is computed with, and not again.
TEST_F(CudaDeviceTest, APreparedBatchIsComputedWith) {
  const Case& model_case = kModels[0];
  Sequential model = MakeModel(model_case.spec, model_case.image, kClasses, *gpu_);
  const Tensors first = model.InitialValues(3);
  for (size_t i = 0; i < first.size(); ++i) std::ranges::copy(first[i], model.values()[i].begin());
  Batch one = testing::RandomBatch(64, model_case.image.size(), kClasses);
  Batch two = one;
  std::ranges::reverse(two.labels);
  const float of_one = model.Gradients(one);
  const float of_two = model.Gradients(two);
  ASSERT_NE(of_one, of_two);
  const auto step = [&](const Batch& batch, const Batch& next) {
    model.Forward(batch, [](LayerVariables) {});
    return model.Backward([&](float) { model.Prepare(next); }, [](size_t, size_t) {});
  };
  EXPECT_EQ(step(one, two), of_one);
  const auto pixels = two.pixels;
  std::ranges::fill(two.pixels, std::nanf(""));
  EXPECT_EQ(step(two, one), of_two);
  std::ranges::copy(pixels, two.pixels.begin());
  EXPECT_EQ(step(two, one), of_two);  // that was not prepared
  EXPECT_EQ(step(one, one), of_one);
}

#ifndef TFDIST_EMULATED_GPU
TEST_F(CudaDeviceTest, TwoWorkersLearnTheDigitsOnOneGpu) {
  testing::Job job(1, 2, {"--model", "cnn", "--steps", "400", "--learning-rate", "0.05"});
  std::vector<std::string> environment;
  for (const char* name : {"LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES"}) {
    const char* value = std::getenv(name);
    if (value != nullptr) environment.push_back(std::string(name) + "=" + value);
  }
  job.Use(TestBinDir() / "tfdist-runtime-cuda", environment);
  job.StartAll();
  for (const char* task : {"master:0", "worker:0"}) {
    EXPECT_EQ(job[task].Wait(std::chrono::seconds(120)), 0) << task;
    EXPECT_THAT(job[task].lines(), Contains(HasSubstr("computes on GPU 0: "))) << task;
  }
  const auto& lines = job["master:0"].lines();
  const auto last = std::find_if(lines.begin(), lines.end(), [](const std::string& line) {
    return line.starts_with("final: ");
  });
  ASSERT_NE(last, lines.end());
  EXPECT_GT(testing::NumberAfter(*last, "test accuracy"), 0.9);
}
#endif

}  // namespace
}  // namespace tfdist::runtime
