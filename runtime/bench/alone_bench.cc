// How fast processes train that share nothing: each the model of tfdist-runtime with SGD, on all of
// the data, without servers. What training with servers cannot beat where arithmetic is the limit.
// scripts/bench training runs it; prints the steps per second of all processes together.
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <new>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "runtime/data/dataset.h"
#include "runtime/memory.h"
#include "runtime/model/dense_network.h"
#include "runtime/update/optimizer.h"

namespace tfdist::runtime::bench {
namespace {

using std::chrono::duration;
using std::chrono::steady_clock;

struct Options {
  std::string data;
  std::vector<size_t> hidden = {128};
  size_t batch = 32;
  float learning_rate = 0.1F;
  int processes = 2;
  double seconds = 5;
};

constexpr double kWarmUpSeconds = 1;

class Training {
 public:
  Training(const Options& options, uint64_t seed)
      : batch_size_(options.batch),
        data_(LoadDataset(options.data, "train")),
        sampler_(ShardOf(data_.size(), 0, 1), seed),
        model_(WidthsOf(options, data_)),
        values_(model_.InitialValues(1)),
        gradients_(values_),
        sgd_({.learning_rate = options.learning_rate}),
        state_(sgd_.initial_state()) {}

  void Step() {
    FillBatch(data_, sampler_.Next(batch_size_), batch_);
    model_.Gradients(values_, batch_, gradients_);
    const OptimizerStep step = sgd_.NextStep(state_);
    for (size_t i = 0; i < values_.size(); ++i) sgd_.Apply(step, {values_[i], {}}, gradients_[i]);
  }

 private:
  static std::vector<size_t> WidthsOf(const Options& options, const Dataset& data) {
    std::vector<size_t> widths = {data.images.pixels};
    widths.insert(widths.end(), options.hidden.begin(), options.hidden.end());
    widths.push_back(ClassCount(data));
    return widths;
  }

  size_t batch_size_;
  Dataset data_;
  Sampler sampler_;
  DenseNetwork model_;
  Tensors values_;
  Tensors gradients_;
  Optimizer sgd_;
  OptimizerState state_;
  Batch batch_;
};

struct Shared {
  std::atomic<int> ready;
  std::atomic<uint64_t> steps;
};

[[noreturn]] void Train(const Options& options, Shared& shared, int process) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  try {
    KeepFreedMemory();
    Training training(options, static_cast<uint64_t>(process));
    training.Step();
    for (++shared.ready; true; ++shared.steps) training.Step();
  } catch (const std::exception& error) {
    fmt::print(stderr, "alone_bench: {}\n", error.what());
    _exit(1);
  }
}

void Sleep(double seconds) { std::this_thread::sleep_for(duration<double>(seconds)); }

void AwaitAll(const Shared& shared, const std::vector<pid_t>& pids) {
  while (shared.ready < static_cast<int>(pids.size())) {
    for (const pid_t pid : pids) {
      if (waitpid(pid, nullptr, WNOHANG) != 0) throw std::runtime_error("a process has ended");
    }
    Sleep(0.001);
  }
}

double StepsPerSecond(const Options& options, Shared& shared, const std::vector<pid_t>& pids) {
  AwaitAll(shared, pids);
  Sleep(std::min(kWarmUpSeconds, options.seconds));
  const uint64_t before = shared.steps;
  const auto begin = steady_clock::now();
  Sleep(options.seconds);
  const uint64_t steps = shared.steps - before;
  return static_cast<double>(steps) / duration<double>(steady_clock::now() - begin).count();
}

void Run(const Options& options) {
  void* memory =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::runtime_error("mmap");
  Shared& shared = *new (memory) Shared{};
  std::vector<pid_t> pids;
  for (int i = 0; i < options.processes; ++i) {
    const pid_t pid = fork();
    if (pid < 0) throw std::runtime_error("fork");
    if (pid == 0) Train(options, shared, i);
    pids.push_back(pid);
  }
  fmt::print("{:.1f} steps/s\n", StepsPerSecond(options, shared, pids));
  for (const pid_t pid : pids) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
}

}  // namespace
}  // namespace tfdist::runtime::bench

int main(int argc, char** argv) {
  tfdist::runtime::bench::Options options;
  CLI::App app("Measures processes that train without servers.", "alone_bench");
  app.add_option("--data", options.data, "folder with train-images-idx3-ubyte[.gz] and so on")
      ->required();
  app.add_option("--hidden", options.hidden, "widths of the hidden layers")->delimiter(',');
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
