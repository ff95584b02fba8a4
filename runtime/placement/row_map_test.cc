#include "runtime/placement/row_map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "runtime/placement/divisor.h"
#include "runtime/testing/expect_error.h"

namespace tfdist::runtime {
namespace {

using testing::ExpectError;
using Parts = std::vector<std::vector<uint32_t>>;

std::vector<uint32_t> IdsOf(const RowSet& rows) {
  std::vector<uint32_t> ids;
  for (uint32_t row = 0; row < rows.count; ++row) ids.push_back(rows.first + row * rows.step);
  return ids;
}

Parts IdsOfParts(const RowMap& rows) {
  Parts parts;
  for (uint32_t part = 0; part < rows.parts(); ++part) parts.push_back(IdsOf(rows.RowsOf(part)));
  return parts;
}

// TensorFlow's formulas (python/ops/embedding_ops.py) as they stand, in numbers that cannot
// overflow.
RowAddress FindByDefinition(int64_t id, int64_t rows, int64_t parts, LookupRule rule) {
  if (rule == LookupRule::kMod) {
    return {static_cast<uint32_t>(id % parts), static_cast<uint32_t>(id / parts)};
  }
  const int64_t each = rows / parts;
  const int64_t extra = rows % parts;
  const int64_t part = std::max(id / (each + 1), id < extra ? -1 : (id - extra) / each);
  const int64_t row = part < extra ? id % (each + 1) : (id - extra) % each;
  return {static_cast<uint32_t>(part), static_cast<uint32_t>(row)};
}

void ExpectAsDefined(int64_t id, uint64_t rows, uint64_t parts, LookupRule rule) {
  EXPECT_EQ(RowMap(rows, parts, rule).Find(id),
            FindByDefinition(id, static_cast<int64_t>(rows), static_cast<int64_t>(parts), rule))
      << "id " << id << " of " << rows << " rows in " << parts << " parts";
}

TEST(RowMap, SplitsThirteenRowsInFiveAsTensorFlowsDocumentationDoes) {
  EXPECT_EQ(IdsOfParts(RowMap(13, 5, LookupRule::kDiv)),
            (Parts{{0, 1, 2}, {3, 4, 5}, {6, 7, 8}, {9, 10}, {11, 12}}));
  EXPECT_EQ(IdsOfParts(RowMap(13, 5, LookupRule::kMod)),
            (Parts{{0, 5, 10}, {1, 6, 11}, {2, 7, 12}, {3, 8}, {4, 9}}));
}

TEST(RowMap, GivesTheFirstPartsOneRowMore) {
  const RowMap rows(10, 4, LookupRule::kDiv);
  EXPECT_EQ(rows.RowsOf(0), (RowSet{0, 1, 3}));
  EXPECT_EQ(rows.RowsOf(1), (RowSet{3, 1, 3}));
  EXPECT_EQ(rows.RowsOf(2), (RowSet{6, 1, 2}));
  EXPECT_EQ(rows.RowsOf(3), (RowSet{8, 1, 2}));
}

TEST(RowMap, OfOnePartTakesIdsAsRows) {
  EXPECT_EQ(RowMap(9, 1, LookupRule::kDiv).Find(8), (RowAddress{0, 8}));
  EXPECT_EQ(RowMap(9, 1, LookupRule::kMod).Find(8), (RowAddress{0, 8}));
}

TEST(RowMap, FindsEachRowOnceAndWhereThePartSaysThatItIs) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    const uint32_t count = 1 + random() % 200;
    const uint32_t parts = 1 + random() % count;
    for (const LookupRule rule : {LookupRule::kDiv, LookupRule::kMod}) {
      const RowMap rows(count, parts, rule);
      std::vector<int> seen(count);
      for (uint32_t part = 0; part < parts; ++part) {
        const RowSet set = rows.RowsOf(part);
        for (uint32_t row = 0; row < set.count; ++row) {
          const uint32_t id = set.first + row * set.step;
          ++seen.at(id);
          EXPECT_EQ(rows.Find(id), (RowAddress{part, row})) << count << " rows, " << parts;
        }
      }
      EXPECT_EQ(seen, std::vector<int>(count, 1)) << count << " rows in " << parts << " parts";
    }
  }
}

TEST(RowMap, FollowsTensorFlowsFormulasForTablesOfEverySize) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 20'000; ++round) {
    const uint64_t rows = 1 + random() % (uint64_t{0xFFFFFFFF} >> (random() % 32));
    const uint64_t parts = 1 + random() % std::min<uint64_t>(rows, kMaxParts);
    for (const LookupRule rule : {LookupRule::kDiv, LookupRule::kMod}) {
      ExpectAsDefined(static_cast<int64_t>(random() % rows), rows, parts, rule);
      ExpectAsDefined(static_cast<int64_t>(rows - 1), rows, parts, rule);
    }
  }
}

TEST(RowMap, RefusesWhatCannotBeSplit) {
  ExpectError([] { RowMap(0, 1, LookupRule::kDiv); }, Phase::kRun, "without rows");
  ExpectError([] { RowMap(3, 0, LookupRule::kDiv); }, Phase::kRun, "0 parts");
  ExpectError([] { RowMap(3, 5, LookupRule::kDiv); }, Phase::kRun, "5 parts for 3 rows");
  ExpectError([] { RowMap(1 << 20, kMaxParts + 1, LookupRule::kMod); }, Phase::kRun, "65537 parts");
  ExpectError([] { RowMap(uint64_t{1} << 32, 1, LookupRule::kMod); }, Phase::kRun, "4294967296");
}

TEST(RowMap, RefusesIdsThatAreNoRow) {
  const RowMap rows(10, 3, LookupRule::kMod);
  ExpectError([&] { static_cast<void>(rows.Find(-1)); }, Phase::kRun, "id -1 of 10 rows");
  ExpectError([&] { static_cast<void>(rows.Find(10)); }, Phase::kRun, "id 10 of 10 rows");
  ExpectError([&] { static_cast<void>(rows.Find(int64_t{1} << 32)); }, Phase::kRun,
              "id 4294967296 of 10 rows");
}

TEST(Divisor, IsExactAroundEveryMultiple) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 100'000; ++round) {
    const uint64_t value = 1 + random() % (uint64_t{0xFFFFFFFF} >> (random() % 32));
    const uint64_t multiple = random() % (0xFFFFFFFF / value + 1) * value;
    for (const uint64_t dividend : {multiple, multiple - 1, multiple + value - 1}) {
      const auto n = static_cast<uint32_t>(dividend);
      ASSERT_EQ(Divisor(value).Quotient(n), n / value) << n << " / " << value;
    }
  }
  EXPECT_EQ(Divisor(1).Quotient(0xFFFFFFFF), 0xFFFFFFFF);
  EXPECT_EQ(Divisor(0xFFFFFFFF).Quotient(0xFFFFFFFF), 1U);
  EXPECT_EQ(Divisor(uint64_t{1} << 32).Quotient(0xFFFFFFFF), 0U);
}

}  // namespace
}  // namespace tfdist::runtime
