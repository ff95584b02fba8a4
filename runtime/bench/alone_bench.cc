// How fast processes train that share nothing: each the model of tfdist-runtime with SGD, on all of
// the data, without servers. What training with servers cannot beat where arithmetic is the limit.
// scripts/bench training runs it; prints the steps per second of all processes together.
#include <cblas.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "runtime/bench/harness.h"
#include "runtime/data/dataset.h"
#include "runtime/device/cpu_device.h"
#include "runtime/model/models.h"
#include "runtime/update/optimizer.h"

namespace tfdist::runtime::bench {
namespace {

struct Options {
  std::string data;
  ModelSpec model;
  size_t batch = 32;
  float learning_rate = 0.1F;
  int processes = 2;
  double seconds = 5;
};

// Each call is a step.
class Alone : public Exchange {
 public:
  Alone(const Options& options, uint64_t seed)
      : batch_size_(options.batch),
        data_(LoadDataset(options.data, "train")),
        sampler_(ShardOf(data_.size(), 0, 1), seed),
        model_(MakeModel(options.model, {data_.images.rows, data_.images.columns, 1},
                         ClassCount(data_), device_)),
        sgd_({.learning_rate = options.learning_rate}),
        state_(sgd_.initial_state()) {
    const Tensors initial = model_.InitialValues(1);
    for (size_t i = 0; i < initial.size(); ++i) {
      std::copy(initial[i].begin(), initial[i].end(), model_.values()[i].begin());
    }
  }

  void Begin(size_t) override {
    FillBatch(data_, sampler_.Next(batch_size_), batch_);
    model_.Gradients(batch_);
    const OptimizerStep step = sgd_.NextStep(state_);
    for (size_t i = 0; i < model_.values().size(); ++i) {
      sgd_.Apply(step, {model_.values()[i], {}}, model_.gradients()[i]);
    }
  }
  void EndOldest() override {}

 private:
  size_t batch_size_;
  Dataset data_;
  Sampler sampler_;
  CpuDevice device_;
  Sequential model_;
  Optimizer sgd_;
  OptimizerState state_;
  Batch batch_;
};

void Run(const Options& options) {
  Case the_case;
  the_case.servers = 0;
  the_case.workers = options.processes;
  the_case.seconds = options.seconds;
  const Sample sample = Measure(the_case, nullptr, [&](const Case&, Shared&, int process) {
    openblas_set_num_threads(1);  // as tfdist-runtime does
    return std::make_unique<Alone>(options, static_cast<uint64_t>(process));
  });
  fmt::print("{:.1f} steps/s\n", sample.calls_per_second);
}

}  // namespace
}  // namespace tfdist::runtime::bench

int main(int argc, char** argv) {
  tfdist::runtime::bench::Options options;
  CLI::App app("Measures processes that train without servers.", "alone_bench");
  app.option_defaults()->always_capture_default();
  app.add_option("--data", options.data, "folder with train-images-idx3-ubyte[.gz] and so on")
      ->required();
  app.add_option("--model", options.model.kind, "softmax, mlp or cnn");
  app.add_option("--filters", options.model.filters, "of the convolutions")->delimiter(',');
  app.add_option("--hidden", options.model.hidden, "widths of the hidden layers")->delimiter(',');
  app.add_option("--batch", options.batch)->check(CLI::Range(1, 1 << 16));
  app.add_option("--learning-rate", options.learning_rate)->check(CLI::PositiveNumber);
  app.add_option("--processes", options.processes)->check(CLI::Range(1, 1000));
  app.add_option("--seconds", options.seconds, "of the timed part")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  try {
    tfdist::runtime::bench::Run(options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "alone_bench: {}\n", error.what());
    return 1;
  }
  return 0;
}
