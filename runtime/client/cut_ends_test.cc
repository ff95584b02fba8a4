#include "runtime/client/cut_ends.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "runtime/transport/blocks.h"

namespace tfdist::runtime {
namespace {

using ::testing::ElementsAre;

constexpr uint32_t kLargeFloats = kMaxBlockBytes / sizeof(float);

struct Memory {
  std::vector<float> gradients = std::vector<float>(kLargeFloats);
  std::vector<float> values = std::vector<float>(kLargeFloats);

  RequestPart Push(uint32_t block, uint32_t floats) {
    RequestPart part;
    part.block = block;
    part.push.push_back({{0, floats}, gradients.data()});
    return part;
  }
  RequestPart PushPull(uint32_t block, uint32_t floats) {
    RequestPart part = Push(block, floats);
    part.pull.push_back({{0, floats}, values.data()});
    return part;
  }
};

std::vector<uint32_t> BlocksOf(const std::vector<RequestPart>& parts) {
  std::vector<uint32_t> blocks;
  for (const RequestPart& part : parts) blocks.push_back(part.block);
  return blocks;
}

TEST(CutEnds, CutsTheFirstAndTheLastLargeBlock) {
  Memory memory;
  std::vector<RequestPart> parts;
  for (uint32_t block = 0; block < 4; ++block) {
    parts.push_back(memory.PushPull(block, block == 3 ? 100 : kLargeFloats));
  }
  CutEnds(parts);
  EXPECT_THAT(BlocksOf(parts), ElementsAre(0, 0, 0, 0, 1, 2, 2, 2, 2, 3));
}

TEST(CutEnds, PiecesAreTheWholeOfTheirBlock) {
  Memory memory;
  constexpr uint32_t kFloats = kLargeFloats - 3;
  std::vector<RequestPart> parts = {memory.PushPull(7, kFloats)};
  CutEnds(parts);
  ASSERT_EQ(parts.size(), kPiecesOfAnEnd);
  uint32_t next = 0;
  for (const RequestPart& part : parts) {
    EXPECT_EQ(part.block, 7U);
    ASSERT_EQ(part.push.size(), 1U);
    ASSERT_EQ(part.pull.size(), 1U);
    EXPECT_EQ(part.push[0].range.offset, next);
    EXPECT_EQ(part.push[0].range, part.pull[0].range);
    EXPECT_EQ(part.push[0].from, memory.gradients.data() + next);
    EXPECT_EQ(part.pull[0].to, memory.values.data() + next);
    next += part.push[0].range.count;
  }
  EXPECT_EQ(next, kFloats);
}

TEST(CutEnds, LeavesAloneWhatGoesOneWayOrIsSmall) {
  Memory memory;
  std::vector<RequestPart> parts = {memory.Push(0, kLargeFloats),
                                    memory.PushPull(1, kMaxFusedBlockBytes / sizeof(float))};
  CutEnds(parts);
  EXPECT_THAT(BlocksOf(parts), ElementsAre(0, 1));
}

}  // namespace
}  // namespace tfdist::runtime
