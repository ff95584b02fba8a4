#include "runtime/transport/blocks.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace tfdist::runtime {
namespace {

TEST(BlockLayout, CutsALargeVariableIntoEqualBlocks) {
  const BlockLayout layout({{"w", {1, 300'000}}});  // 1.2 MB
  ASSERT_EQ(layout.block_count(), 2U);
  EXPECT_EQ(layout.FloatsOf(0), 150'000U);
  const auto extents = layout.OfVariable(0);
  ASSERT_EQ(extents.size(), 2U);
  EXPECT_EQ(extents[1], (Extent{0, 1, 150'000, 0, 150'000}));
}

TEST(BlockLayout, FusesSmallVariablesInOrderOfCreationPastLargeOnes) {
  const BlockLayout layout({{"b0", {10}}, {"w", {1 << 18}}, {"b1", {4}}, {"scale", {}}});
  ASSERT_EQ(layout.block_count(), 2U);
  EXPECT_EQ(layout.FloatsOf(0), 15U);
  EXPECT_EQ(layout.OfVariable(1)[0], (Extent{1, 1, 0, 0, 1U << 18}));
  EXPECT_EQ(layout.OfVariable(2)[0], (Extent{2, 0, 0, 10, 4}));
  EXPECT_EQ(layout.OfVariable(3)[0], (Extent{3, 0, 0, 14, 1}));
  ASSERT_EQ(layout.InBlock(0).size(), 3U);
  EXPECT_EQ(layout.InBlock(0)[1].variable, 2U);
}

TEST(BlockLayout, BeginsAnotherBlockWhenASmallVariableDoesNotFit) {
  const std::vector<TensorSpec> variables(256, {"v", {1024}});  // 4 KiB each
  const BlockLayout layout(variables);
  ASSERT_EQ(layout.block_count(), 2U);
  EXPECT_EQ(layout.FloatsOf(0) * sizeof(float), kMaxFusedBlockBytes);
  EXPECT_EQ(layout.OfVariable(128)[0], (Extent{128, 1, 0, 0, 1024}));
}

TEST(BlockLayout, AVariableWithoutValuesIsNowhere) {
  const BlockLayout layout({{"empty", {0, 5}}, {"b", {1}}});
  EXPECT_TRUE(layout.OfVariable(0).empty());
  EXPECT_EQ(layout.block_count(), 1U);
  EXPECT_EQ(BlockLayout({}).block_count(), 0U);
}

// Whatever the sizes: no block above the limit, every value in one place.
TEST(BlockLayout, HoldsEveryValueOnce) {
  std::vector<TensorSpec> variables;
  for (uint32_t i = 0; i < 60; ++i) variables.push_back({"v", {(i * i * 7919) % 400'000}});
  const BlockLayout layout(variables);
  size_t floats = 0;
  for (size_t block = 0; block < layout.block_count(); ++block) {
    EXPECT_LE(layout.FloatsOf(block) * sizeof(float), kMaxBlockBytes);
    uint32_t next = 0;
    for (const Extent& extent : layout.InBlock(block)) {
      EXPECT_EQ(extent.offset, next);
      next += extent.count;
    }
    EXPECT_EQ(next, layout.FloatsOf(block));
    floats += next;
  }
  size_t expected = 0;
  for (size_t i = 0; i < variables.size(); ++i) {
    size_t first = 0;
    for (const Extent& extent : layout.OfVariable(i)) {
      EXPECT_EQ(extent.first, first);
      first += extent.count;
    }
    EXPECT_EQ(first, ElementCount(variables[i]));
    expected += first;
  }
  EXPECT_EQ(floats, expected);
}

}  // namespace
}  // namespace tfdist::runtime
