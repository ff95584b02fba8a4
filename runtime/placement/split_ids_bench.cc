// What it costs to split a batch of ids: the arguments are parts and rule (0 div, 1 mod).
#include <benchmark/benchmark.h>

#include <random>
#include <vector>

#include "runtime/placement/split_ids.h"

namespace tfdist::runtime {
namespace {

constexpr uint32_t kRows = 10'000'019;  // not a multiple of any number of parts below
constexpr size_t kIds = 100'000;

std::vector<int64_t> RandomIds() {
  std::mt19937_64 random(1);
  std::uniform_int_distribution<int64_t> id(0, kRows - 1);
  std::vector<int64_t> ids(kIds);
  for (int64_t& each : ids) each = id(random);
  return ids;
}

void SplitRandomIds(benchmark::State& state) {
  const RowMap rows(kRows, static_cast<uint64_t>(state.range(0)),
                    state.range(1) == 0 ? LookupRule::kDiv : LookupRule::kMod);
  const std::vector<int64_t> ids = RandomIds();
  SplitIds split;
  while (state.KeepRunning()) {
    split.Split(rows, ids, "words");
    benchmark::DoNotOptimize(split.RowsOf(0).data());
    benchmark::ClobberMemory();
  }
  state.counters["time/id"] =
      benchmark::Counter(static_cast<double>(kIds), benchmark::Counter::kIsIterationInvariantRate |
                                                        benchmark::Counter::kInvert);
}
BENCHMARK(SplitRandomIds)->ArgsProduct({{1, 2, 4, 16, 64, 1024}, {0, 1}});

}  // namespace
}  // namespace tfdist::runtime
