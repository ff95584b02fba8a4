// How long a step takes on a GPU without servers, and how fast cuBLAS itself is on it. A step is what a
// trainer does between a pull and a push: all values and a batch to the GPU, forward, backward, all
// gradients to the host. scripts/gpu-test runs it, beside PyTorch. Prints two lines of JSON.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <exception>
#include <random>
#include <span>
#include <vector>

#include "base/error.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/model/models.h"

namespace tfdist::runtime::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kClasses = 10;

struct Options {
  ModelSpec model{.hidden = {3072, 3072}};
  size_t batch = 1024;
  size_t side = 28;       // of the images
  size_t product = 8192;  // side of the matrices by which cuBLAS is measured
  double seconds = 2;
};

// At random: on zeros a GPU can be faster than it is.
void FillAtRandom(std::span<float> values) {
  static std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (float& value : values) value = uniform(random);
}

// Milliseconds of a call: the median of those that fit into the time, after some that do not count.
template <typename Call>
double MedianMilliseconds(double seconds, Call call) {
  constexpr int kWarmUp = 10;
  for (int i = 0; i < kWarmUp; ++i) call();
  std::vector<double> times;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  do {
    const auto begin = Clock::now();
    call();
    times.push_back(std::chrono::duration<double, std::milli>(Clock::now() - begin).count());
  } while (Clock::now() < end);
  std::nth_element(times.begin(), times.begin() + static_cast<ptrdiff_t>(times.size() / 2),
                   times.end());
  return times[times.size() / 2];
}

void MeasureProduct(const Options& options, Device& device) {
  const size_t count = options.product * options.product;
  std::vector<float> values(count);
  Buffer matrices[3];
  for (Buffer& matrix : matrices) {
    matrix = Buffer(device, count * sizeof(float));
    FillAtRandom(values);
    device.Upload(values.data(), count * sizeof(float), matrix);
  }
  const GemmShape shape{options.product, options.product, options.product};
  const double milliseconds = MedianMilliseconds(options.seconds, [&] {
    device.Gemm(shape, matrices[0], matrices[1], matrices[2]);
    device.Wait(device.Download(matrices[2], sizeof(float), values.data()));
  });
  const double operations = 2.0 * static_cast<double>(count) * static_cast<double>(options.product);
  fmt::print("{{\"cublas_teraflops\": {:.2f}}}\n", operations / milliseconds / 1e9);
}

void MeasureStep(const Options& options, Device& device) {
  Sequential model = MakeModel(options.model, {options.side, options.side, 1}, kClasses, device);
  const Tensors initial = model.InitialValues(1);
  for (size_t i = 0; i < initial.size(); ++i) {
    std::copy(initial[i].begin(), initial[i].end(), model.values()[i].begin());
  }
  Batch batch;
  batch.pixels.resize(options.batch * options.side * options.side);
  FillAtRandom(batch.pixels);
  for (size_t i = 0; i < options.batch; ++i) {
    batch.labels.push_back(static_cast<uint8_t>(i % kClasses));
  }
  const double milliseconds =
      MedianMilliseconds(options.seconds, [&] { (void)model.Gradients(batch); });
  fmt::print("{{\"step_ms\": {:.4f}, \"device\": \"{}\"}}\n", milliseconds, device.name());
}

}  // namespace
}  // namespace tfdist::runtime::bench

int main(int argc, char** argv) {
  tfdist::runtime::bench::Options options;
  CLI::App app("Measures steps of training on a GPU, without servers.", "cuda_bench");
  app.option_defaults()->always_capture_default();
  app.add_option("--model", options.model.kind, "softmax, mlp or cnn");
  app.add_option("--filters", options.model.filters, "of the convolutions")->delimiter(',');
  app.add_option("--hidden", options.model.hidden, "widths of the hidden layers")->delimiter(',');
  app.add_option("--batch", options.batch)->check(CLI::Range(1, 1 << 16));
  app.add_option("--seconds", options.seconds, "of each timed part")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  try {
    tfdist::runtime::cuda::CudaDevice device(0);
    tfdist::runtime::bench::MeasureProduct(options, device);
    tfdist::runtime::bench::MeasureStep(options, device);
  } catch (const tfdist::Error& error) {
    fmt::print(stderr, "cuda_bench: {}\n  try: {}\n", error.cause(), error.remedy());
    return 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "cuda_bench: {}\n", error.what());
    return 1;
  }
  return 0;
}
