// What a checkpoint costs a training, and how fast it is written, beside a plain write and fsync of
// the same bytes; and how fast it is restored, beside a plain read, and one into memory that was not
// used before, as a server that has just started has no other: there each page has to be provided
// first, in a virtual machine by its host. A server of its own process, one trainer, shared memory, no security. Each step
// pushes and pulls all variables and computes nothing, or for as long as is asked: without
// computing, a step is memory traffic alone, and the writer's share of it is felt the most.
//
// A repetition times steps without a checkpoint, then those while one is written; the ratio is that
// of one repetition. Machines differ and are noisy; trust the ratios.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/testing/temporary_folder.h"
#include "base/unique_fd.h"
#include "runtime/bench/harness.h"
#include "runtime/bench/server_process.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/client.h"
#include "runtime/common/memory.h"
#include "runtime/testing/local_cluster.h"

namespace tfdist::runtime::bench {
namespace {

using std::chrono::duration;
using testing::ConfigOf;

struct Options {
  std::vector<uint32_t> megabytes = {4, 64, 256};
  std::string optimizer = "sgd:learning_rate=0.01";
  double compute_ms = 0;
  double seconds = 2;
  int repetitions = 5;
  std::string folder;
};

double Since(TimePoint begin) { return duration<double>(SystemClock().Now() - begin).count(); }

class Training {
 public:
  Training(const ClusterSpec& cluster, uint32_t megabytes, const Options& options)
      : options_(options),
        variables_({{"w", {megabytes, 250'000}}}),
        client_(ClientOptionsOf(cluster), variables_),
        values_(Zeros(variables_)),
        gradients_(Zeros(variables_)) {}

  void Begin() {
    client_.Create(values_, ParseOptimizer(options_.optimizer));
    for (int i = 0; i < 3; ++i) Step();
  }

  double StepsPerSecond() {
    const auto begin = SystemClock().Now();
    int steps = 0;
    for (; steps < 2 || Since(begin) < options_.seconds; ++steps) Step();
    return steps / Since(begin);
  }

  struct WhileSaving {
    double steps_per_second = 0;
    double seconds = 0;
    uint64_t bytes = 0;
    RestoreSpec spec;
  };
  WhileSaving Save(uint64_t number) {
    const auto begin = SystemClock().Now();
    client_.StartSave({number, number, {}});
    int steps = 0;
    std::optional<Saved> saved;
    for (; !saved; ++steps) {
      Step();
      saved = client_.TakeSaved();
    }
    if (saved->failure) throw Error(*saved->failure);
    const double seconds = Since(begin);
    RestoreSpec spec{CheckpointName(number), number, saved->step, saved->shards};
    return {steps / seconds, seconds, saved->shards.at(0).bytes, std::move(spec)};
  }
  // On a server that has no variables yet.
  double SecondsOfRestore(const RestoreSpec& spec) {
    const auto begin = SystemClock().Now();
    if (!client_.Restore({spec}, values_, ParseOptimizer(options_.optimizer))) {
      throw Error(Phase::kInternal, "nothing was restored");
    }
    return Since(begin);
  }

 private:
  static ClientOptions ClientOptionsOf(const ClusterSpec& cluster) {
    ClientOptions options;
    options.config = ConfigOf(cluster, "master:0");
    return options;
  }

  void Step() {
    client_.PushPull(GradientsOf(gradients_), TargetsOf(values_));
    const double compute = options_.compute_ms / 1000;
    for (const auto computes = SystemClock().Now(); Since(computes) < compute;) {
    }
  }

  const Options& options_;
  std::vector<TensorSpec> variables_;
  Client client_;
  Tensors values_;
  Tensors gradients_;
};

double SecondsOfAPlainWrite(const std::filesystem::path& path, uint64_t bytes) {
  const std::string block(size_t{1} << 20, 'x');
  const auto begin = SystemClock().Now();
  const UniqueFd file = OpenFile(path, O_WRONLY | O_CREAT | O_TRUNC);
  for (uint64_t written = 0; written < bytes; written += block.size()) {
    WriteAll(file.get(), block, path.string());
  }
  if (fsync(file.get()) != 0) throw Error(Phase::kFiles, WithErrno("fsync", errno));
  return Since(begin);
}

constexpr size_t kReadBytes = size_t{1} << 20;

double SecondsOfAPlainRead(const std::filesystem::path& path) {
  std::string block(kReadBytes, '\0');
  const auto begin = SystemClock().Now();
  const UniqueFd file = OpenFile(path, O_RDONLY);
  while (true) {
    const ssize_t got = read(file.get(), block.data(), block.size());
    if (got < 0) throw Error(Phase::kFiles, WithErrno("read", errno));
    if (got == 0) return Since(begin);
  }
}

double SecondsOfAReadIntoNewMemory(const std::filesystem::path& path) {
  const size_t bytes = std::filesystem::file_size(path);
  const auto begin = SystemClock().Now();
  const UniqueFd file = OpenFile(path, O_RDONLY);
  void* const memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw Error(Phase::kInternal, WithErrno("mmap", errno));
  for (size_t done = 0; done < bytes;) {
    const ssize_t got =
        read(file.get(), static_cast<char*>(memory) + done, std::min(kReadBytes, bytes - done));
    if (got <= 0) throw Error(Phase::kFiles, WithErrno("read", errno));
    done += static_cast<size_t>(got);
  }
  const double seconds = Since(begin);
  munmap(memory, bytes);
  return seconds;
}

// All from the page cache. The server's start is part of the first.
struct Restored {
  double seconds = 0;
  double plain_seconds = 0;
  double new_memory_seconds = 0;
};
Restored MeasureRestore(uint32_t megabytes, const Options& options, const RestoreSpec& spec,
                        ServerOptions server_options) {
  const testing::LocalCluster cluster(1, 1);
  server_options.config = ConfigOf(cluster, "ps:0");
  const ServerProcess server(server_options);
  Training training(cluster, megabytes, options);
  const double seconds = training.SecondsOfRestore(spec);
  const std::filesystem::path shard = server_options.checkpoints / spec.name / ShardName(0, 1);
  return {seconds, SecondsOfAPlainRead(shard), SecondsOfAReadIntoNewMemory(shard)};
}

void Measure(uint32_t megabytes, const Options& options) {
  const TemporaryFolder temporary;
  const std::filesystem::path folder =
      options.folder.empty() ? temporary.path() : std::filesystem::path(options.folder);
  const testing::LocalCluster cluster(1, 1);
  ServerOptions server_options;
  server_options.config = ConfigOf(cluster, "ps:0");
  server_options.checkpoints = folder;
  std::vector<double> without;
  std::vector<double> ratios;
  std::vector<double> rates;
  std::vector<double> plain;
  RestoreSpec newest;
  {
    const ServerProcess server(server_options);
    Training training(cluster, megabytes, options);
    training.Begin();
    for (int i = 1; i <= options.repetitions; ++i) {
      without.push_back(training.StepsPerSecond());
      auto saved = training.Save(static_cast<uint64_t>(i));
      ratios.push_back(saved.steps_per_second / without.back());
      const double gigabytes = static_cast<double>(saved.bytes) / 1e9;
      rates.push_back(gigabytes / saved.seconds);
      plain.push_back(gigabytes / SecondsOfAPlainWrite(folder / "plain", saved.bytes));
      std::filesystem::remove(folder / "plain");
      newest = std::move(saved.spec);
    }
  }
  std::vector<double> restored;
  std::vector<double> read;
  std::vector<double> into_new_memory;
  const double gigabytes = static_cast<double>(newest.shards.at(0).bytes) / 1e9;
  for (int i = 1; i <= options.repetitions; ++i) {
    const Restored times = MeasureRestore(megabytes, options, newest, server_options);
    restored.push_back(gigabytes / times.seconds);
    read.push_back(gigabytes / times.plain_seconds);
    into_new_memory.push_back(gigabytes / times.new_memory_seconds);
  }
  fmt::print("{:>6} {:>12.1f} {:>14.2f} {:>14.2f} {:>12.2f} {:>14.2f} {:>12.2f} {:>16.2f}\n",
             megabytes, Median(without), Median(ratios), Median(rates), Median(plain),
             Median(restored), Median(read), Median(into_new_memory));
  std::fflush(stdout);
}

void Run(const Options& options) {
  fmt::print("{:>6} {:>12} {:>14} {:>14} {:>12} {:>14} {:>12} {:>16}\n", "MB", "steps/s",
             "while it saves", "GB/s written", "plain GB/s", "GB/s restored", "plain read",
             "into new memory");
  for (const uint32_t megabytes : options.megabytes) Measure(megabytes, options);
}

}  // namespace
}  // namespace tfdist::runtime::bench

int main(int argc, char** argv) {
  tfdist::runtime::bench::Options options;
  CLI::App app("Measures steps while a checkpoint is written beside steps without.",
               "checkpoint_bench");
  app.option_defaults()->always_capture_default();
  app.add_option("--sizes", options.megabytes, "MB of variables")->delimiter(',');
  app.add_option("--optimizer", options.optimizer);
  app.add_option("--compute-ms", options.compute_ms, "of a step, beside the exchange");
  app.add_option("--seconds", options.seconds, "of steps without a checkpoint");
  app.add_option("--repetitions", options.repetitions)->check(CLI::Range(1, 1000));
  app.add_option("--folder", options.folder, "where it writes; default: a temporary one");
  CLI11_PARSE(app, argc, argv);
  tfdist::runtime::KeepFreedMemory();
  try {
    tfdist::runtime::bench::Run(options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "checkpoint_bench: {}\n", error.what());
    return 1;
  }
  return 0;
}
