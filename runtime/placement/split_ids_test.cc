#include "runtime/placement/split_ids.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

#include "runtime/testing/expect_error.h"

namespace tfdist::runtime {
namespace {

using testing::ExpectError;

std::vector<uint32_t> Copy(std::span<const uint32_t> values) {
  return {values.begin(), values.end()};
}

TEST(SplitIds, SendsEachIdOnlyToThePartThatHoldsIt) {
  SplitIds split;
  split.Split(RowMap(13, 5, LookupRule::kDiv), std::vector<int64_t>{9, 0, 12, 2, 9}, "words");
  ASSERT_EQ(split.parts(), 5U);
  EXPECT_EQ(Copy(split.RowsOf(0)), (std::vector<uint32_t>{0, 2}));
  EXPECT_EQ(Copy(split.PositionsOf(0)), (std::vector<uint32_t>{1, 3}));
  EXPECT_TRUE(split.RowsOf(1).empty());
  EXPECT_TRUE(split.PositionsOf(2).empty());
  EXPECT_EQ(Copy(split.RowsOf(3)), (std::vector<uint32_t>{0, 0}));
  EXPECT_EQ(Copy(split.PositionsOf(3)), (std::vector<uint32_t>{0, 4}));
  EXPECT_EQ(Copy(split.RowsOf(4)), (std::vector<uint32_t>{1}));
  EXPECT_EQ(Copy(split.PositionsOf(4)), (std::vector<uint32_t>{2}));
}

TEST(SplitIds, TakesAnEmptyBatch) {
  SplitIds split;
  EXPECT_EQ(split.parts(), 0U);
  split.Split(RowMap(4, 2, LookupRule::kMod), {}, "words");
  ASSERT_EQ(split.parts(), 2U);
  EXPECT_TRUE(split.RowsOf(0).empty());
  EXPECT_TRUE(split.RowsOf(1).empty());
}

TEST(SplitIds, RefusesIdsThatAreNoRowAndHoldsNothingThen) {
  const RowMap rows(10, 3, LookupRule::kDiv);
  SplitIds split;
  split.Split(rows, std::vector<int64_t>{1, 2}, "words");
  const auto expect_error = [&](int64_t id, const std::string& words) {
    ExpectError(
        [&] {
          split.Split(rows, std::vector<int64_t>{1, 2, id}, "words");
        },
        Phase::kRun, words);
    EXPECT_EQ(split.parts(), 0U);
  };
  expect_error(-1, "table words: id -1 at position 2 of the batch, but 10 rows");
  expect_error(10, "table words: id 10 at position 2");
  expect_error((int64_t{1} << 32) + 1, "table words: id 4294967297 at position 2");
  expect_error(std::numeric_limits<int64_t>::min(), "table words: id -9223372036854775808");
}

// What a client does: asks each part, and puts the answers where they belong.
std::vector<int64_t> AskAndScatter(const RowMap& rows, const SplitIds& split, size_t batch_size) {
  std::vector<int64_t> answers(batch_size, -1);
  for (uint32_t part = 0; part < split.parts(); ++part) {
    const RowSet held = rows.RowsOf(part);
    const std::span<const uint32_t> asked = split.RowsOf(part);
    const std::span<const uint32_t> positions = split.PositionsOf(part);
    EXPECT_TRUE(std::is_sorted(positions.begin(), positions.end()));
    for (size_t k = 0; k < asked.size(); ++k) {
      EXPECT_LT(asked[k], held.count);
      answers.at(positions[k]) = held.first + int64_t{asked[k]} * held.step;
    }
  }
  return answers;
}

TEST(SplitIds, ThenScatterIsTheIdentity) {
  std::mt19937_64 random(1);
  SplitIds split;  // one for all rounds, as larger and smaller batches follow each other
  for (int round = 0; round < 500; ++round) {
    const uint64_t count = 1 + random() % (uint64_t{0xFFFFFFFF} >> (random() % 32));
    const uint64_t parts = 1 + random() % std::min<uint64_t>(count, 100);
    const RowMap rows(count, parts, random() % 2 == 0 ? LookupRule::kDiv : LookupRule::kMod);
    std::vector<int64_t> ids(random() % 1000);
    for (int64_t& id : ids) id = static_cast<int64_t>(random() % count);
    split.Split(rows, ids, "words");
    ASSERT_EQ(split.parts(), parts);
    ASSERT_EQ(AskAndScatter(rows, split, ids.size()), ids);
  }
}

TEST(SplitIds, ATableInOnePartHasItsIdsAsRows) {
  for (const LookupRule rule : {LookupRule::kDiv, LookupRule::kMod}) {
    const RowMap rows(0xFFFFFFFF, 1, rule);
    SplitIds split;
    split.Split(rows, std::vector<int64_t>{7, 0, 0xFFFFFFFE, 7}, "words");
    ASSERT_EQ(split.parts(), 1U);
    EXPECT_EQ(Copy(split.RowsOf(0)), (std::vector<uint32_t>{7, 0, 0xFFFFFFFE, 7}));
    EXPECT_EQ(Copy(split.PositionsOf(0)), (std::vector<uint32_t>{0, 1, 2, 3}));
    for (const int64_t bad : {int64_t{-1}, int64_t{0xFFFFFFFF}}) {
      ExpectError(
          [&] {
            split.Split(rows, std::vector<int64_t>{1, bad, 2, bad}, "words");
          },
          Phase::kRun, "id " + std::to_string(bad) + " at position 1 of the batch");
      EXPECT_EQ(split.parts(), 0U);
    }
  }
}

TEST(SplitIds, UsesItsMemoryAgain) {
  const RowMap rows(1000, 7, LookupRule::kMod);
  const std::vector<int64_t> ids(100, 5);
  SplitIds split;
  split.Split(rows, ids, "words");
  const uint32_t* const memory = split.RowsOf(0).data();
  split.Split(rows, std::span(ids).first(10), "words");
  split.Split(rows, ids, "words");
  EXPECT_EQ(split.RowsOf(0).data(), memory);
}

}  // namespace
}  // namespace tfdist::runtime
