// How fast rows of an embedding table are pulled and pushed, beside a bare gather and scatter-add
// of the same ids in one process, which is what it cannot beat. Fresh ids in each batch; a server
// of its own process, one client, shared memory, no security.
//
// A repetition times all four, batch by batch in turn; a ratio is that of one repetition. Machines
// differ and are noisy; trust the ratios.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <deque>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "runtime/bench/server_process.h"
#include "runtime/client.h"
#include "runtime/common/memory.h"
#include "runtime/common/row_bytes.h"
#include "runtime/ps/tables/float_slab.h"
#include "runtime/testing/local_cluster.h"

namespace tfdist::runtime::bench {
namespace {

using std::chrono::duration;
using testing::ConfigOf;

struct Options {
  uint32_t rows = 10'000'000;
  uint32_t width = 16;
  size_t batch = 100'000;
  int batches = 20;
  int repetitions = 5;
  int window = 1;  // calls under way
};

// In huge pages like the server's, with the same look ahead and the same copies: the floor is not
// to be a slow one.
class BareTable {
 public:
  explicit BareTable(const Options& options)
      : width_(options.width), values_(size_t{options.rows} * options.width) {
    std::fill(values_.floats().begin(), values_.floats().end(), 0.5F);
  }

  void Gather(const std::vector<int64_t>& ids, float* to) const {
    WithRowBytes(width_ * sizeof(float), [&, values = values_.floats().data()](auto row_bytes) {
      GatherRows(values, ids, row_bytes, to);
    });
  }
  void ScatterAdd(const std::vector<int64_t>& ids, const float* gradients) {
    WithRowBytes(width_ * sizeof(float), [&, values = values_.floats().data()](auto row_bytes) {
      ScatterAddRows(values, ids, row_bytes, gradients);
    });
  }

 private:
  static constexpr size_t kRowsAhead = 24;

  template <int kWrite>
  [[gnu::always_inline]] static void LookAt(const float* row, size_t width) {
    constexpr size_t kLineFloats = 16;
    constexpr size_t kLines = 8;  // the end of a long row comes by itself
    for (size_t at = 0; at < std::min(width, kLines * kLineFloats); at += kLineFloats) {
      __builtin_prefetch(row + at, kWrite);
    }
  }

  template <typename Bytes>
  static void GatherRows(const float* values, std::span<const int64_t> ids, Bytes row_bytes,
                         float* to) {
    const size_t width = row_bytes / sizeof(float);
    for (size_t i = 0; i < ids.size(); ++i, to += width) {
      if (i + kRowsAhead < ids.size()) {
        LookAt<0>(values + static_cast<size_t>(ids[i + kRowsAhead]) * width, width);
      }
      std::memcpy(to, values + static_cast<size_t>(ids[i]) * width, row_bytes);
    }
  }

  template <typename Bytes>
  static void ScatterAddRows(float* values, std::span<const int64_t> ids, Bytes row_bytes,
                             const float* gradient) {
    const size_t width = row_bytes / sizeof(float);
    for (size_t i = 0; i < ids.size(); ++i, gradient += width) {
      if (i + kRowsAhead < ids.size()) {
        LookAt<1>(values + static_cast<size_t>(ids[i + kRowsAhead]) * width, width);
      }
      float* const row = values + static_cast<size_t>(ids[i]) * width;
      for (size_t j = 0; j < width; ++j) row[j] -= 0.01F * gradient[j];
    }
  }

  size_t width_;
  FloatSlab values_;
};

Client ConnectTo(const ClusterSpec& cluster, const Options& options) {
  ClientOptions client_options;
  client_options.config = ConfigOf(cluster, "master:0");
  return {client_options,
          {},
          {{.name = "table",
            .rows = options.rows,
            .width = options.width,
            .initial = UniformRows(-0.05F, 0.05F, 1)}}};
}

// For each id, headers included.
void PrintBytes(Client& client, const Options& options, const std::vector<int64_t>& batch,
                const Tensor& gradients, Tensor& rows) {
  const auto bytes_of = [&](auto call) {
    const ClientCounters before = client.counters();
    call();
    const ClientCounters after = client.counters();
    const auto ids = static_cast<double>(batch.size());
    return fmt::format("sends {:.2f} and gets {:.2f}",
                       static_cast<double>(after.sent_bytes - before.sent_bytes) / ids,
                       static_cast<double>(after.received_bytes - before.received_bytes) / ids);
  };
  const std::string pull = bytes_of([&] { client.Pull({}, {{0, batch, rows}}); });
  const std::string push = bytes_of([&] { client.Push({}, {{0, batch, gradients}}); });
  fmt::print("bytes an id: a pull {}, a push {}; 4 are its number, {} its row\n", pull, push,
             options.width * sizeof(float));
}

using Batch = std::vector<int64_t>;

std::vector<Batch> FreshBatches(const Options& options, std::mt19937_64& random) {
  std::vector<Batch> batches(static_cast<size_t>(options.batches), Batch(options.batch));
  for (Batch& batch : batches) {
    for (int64_t& id : batch) id = static_cast<int64_t>(random() % options.rows);
  }
  return batches;
}

// Million rows per second.
template <typename Use>
double RateOf(const std::vector<Batch>& batches, Use use) {
  const auto begin = SystemClock().Now();
  use(batches);
  const double seconds = duration<double>(SystemClock().Now() - begin).count();
  return 1e-6 * static_cast<double>(batches.size() * batches.front().size()) / seconds;
}

// Calls `start` for each batch and waits for the oldest once `window` are under way.
template <typename Start>
void InWindow(const std::vector<Batch>& batches, int window, Start start) {
  std::deque<Future> begun;
  for (size_t i = 0; i < batches.size(); ++i) {
    begun.push_back(start(i, batches[i]));
    if (begun.size() < static_cast<size_t>(window)) continue;
    begun.front().Wait();
    begun.pop_front();
  }
  for (Future& future : begun) future.Wait();
}

std::string Spread(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return fmt::format("{:.2f} [{:.2f}-{:.2f}]", values[values.size() / 2], values.front(),
                     values.back());
}

struct Column {
  std::vector<double> bare;
  std::vector<double> ours;

  void Print(const std::string& name) const {
    std::vector<double> ratios;
    for (size_t i = 0; i < bare.size(); ++i) ratios.push_back(ours[i] / bare[i]);
    fmt::print("{:<5} bare {:<22} ours {:<22} ours/bare {}\n", name, Spread(bare), Spread(ours),
               Spread(ratios));
  }
};

void Run(const Options& options) {
  const testing::LocalCluster cluster(1, 1);
  ServerOptions server_options;
  server_options.config = ConfigOf(cluster, "ps:0");
  const ServerProcess server(server_options);
  Client client = ConnectTo(cluster, options);
  client.Create({}, {.learning_rate = 0.01F});
  BareTable bare(options);
  const size_t floats = options.batch * options.width;
  const Tensor gradients(floats, 1e-3F);
  std::vector<Tensor> rows(static_cast<size_t>(options.window), Tensor(floats));
  std::mt19937_64 random(1);
  Column pull;
  Column push;
  for (int i = -1; i < options.repetitions; ++i) {  // the first to warm up
    const auto batches = FreshBatches(options, random);
    const double bare_gather = RateOf(batches, [&](const auto& all) {
      for (const Batch& batch : all) bare.Gather(batch, rows[0].data());
    });
    const double pulled = RateOf(batches, [&](const auto& all) {
      InWindow(all, options.window, [&](size_t call, const Batch& batch) {
        return client.StartPull({}, {{0, batch, rows[call % rows.size()]}});
      });
    });
    const double bare_add = RateOf(batches, [&](const auto& all) {
      for (const Batch& batch : all) bare.ScatterAdd(batch, gradients.data());
    });
    const double pushed = RateOf(batches, [&](const auto& all) {
      InWindow(all, options.window, [&](size_t, const Batch& batch) {
        return client.StartPush({}, {{0, batch, gradients}});
      });
    });
    if (i < 0) continue;
    pull.bare.push_back(bare_gather);
    pull.ours.push_back(pulled);
    push.bare.push_back(bare_add);
    push.ours.push_back(pushed);
  }
  fmt::print(
      "{} rows of {} floats, {} ids a batch, {} under way; million rows/s, median [min-max]\n",
      options.rows, options.width, options.batch, options.window);
  pull.Print("pull");
  push.Print("push");
  PrintBytes(client, options, FreshBatches(options, random).front(), gradients, rows[0]);
}

}  // namespace
}  // namespace tfdist::runtime::bench

int main(int argc, char** argv) {
  tfdist::runtime::bench::Options options;
  CLI::App app("Measures pulls and pushes of rows beside a bare gather and scatter-add.",
               "rows_bench");
  app.option_defaults()->always_capture_default();
  app.add_option("--rows", options.rows)->check(CLI::Range(1, 1'000'000'000));
  app.add_option("--width", options.width, "floats of a row")->check(CLI::Range(1, 65'536));
  app.add_option("--batch", options.batch, "ids")->check(CLI::Range(1, 100'000'000));
  app.add_option("--batches", options.batches, "timed together")->check(CLI::Range(1, 100'000));
  app.add_option("--repetitions", options.repetitions)->check(CLI::Range(1, 1000));
  app.add_option("--window", options.window, "calls under way")->check(CLI::Range(1, 100));
  CLI11_PARSE(app, argc, argv);
  tfdist::runtime::KeepFreedMemory();
  tfdist::runtime::bench::Run(options);
  return 0;
}
