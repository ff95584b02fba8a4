#include "runtime/data/batch_reader.h"

#include <gtest/gtest.h>

#include <string>

#include "base/testing/test_paths.h"

namespace tfdist::runtime {
namespace {

const Dataset& ReadersDigits() {
  static const Dataset digits = LoadDataset(TestSourceDir() / "configs/data/digits", "train");
  return digits;
}

TEST(BatchReader, GivesWhatTheSamplerOfItsSeedGives) {
  const Dataset& digits = ReadersDigits();
  const std::vector<size_t> shard = ShardOf(digits.size(), 1, 3);
  for (const uint64_t seed : {1, 2}) {
    BatchReader reader(digits, shard, seed, 40);
    Sampler sampler(shard, seed);
    Batch batch;
    Batch expected;
    for (int i = 0; i < 100; ++i) {  // several rounds, and many times what is read ahead
      reader.Next(batch);
      FillBatch(digits, sampler.Next(40), expected);
      ASSERT_EQ(batch.labels, expected.labels) << i;
      ASSERT_EQ(batch.pixels, expected.pixels) << i;
    }
  }
}

TEST(BatchReader, EndsWhileItReadsOrWaits) {
  const Dataset& digits = ReadersDigits();
  for (int i = 0; i < 50; ++i) {
    BatchReader reader(digits, ShardOf(digits.size(), 0, 1), 1, 1000);
    Batch batch;
    for (int taken = 0; taken < i % 4; ++taken) reader.Next(batch);
  }
}

}  // namespace
}  // namespace tfdist::runtime
