#include "agent/tasks/gpu_use.h"

#include <gtest/gtest.h>

namespace tfdist::agent {
namespace {

constexpr std::string_view kTwoGpus =
    "0, GPU-aa, 87, 40000, 81559\n1, GPU-bb, [N/A], 4, 81559\nno line of a GPU\n";

TEST(GpuUseTest, GivesEachProcessTheMemoryThatItHasOfEachGpu) {
  const GpuUses uses =
      ReadGpuUses(kTwoGpus, "10, GPU-aa, 30000\n11, GPU-aa, 512\n11, GPU-bb, 4\n12, GPU-cc, 9\n");
  ASSERT_EQ(uses.gpus.size(), 2U);
  EXPECT_EQ(uses.gpus[1].percent, 0);  // not known
  const auto used = UsedBy({10, 11}, uses);
  ASSERT_EQ(used.size(), 2U);
  EXPECT_EQ(used[0].index, 0);
  EXPECT_EQ(used[0].percent, 87);
  EXPECT_EQ(used[0].used_bytes, uint64_t{30512} << 20);
  EXPECT_EQ(used[0].total_bytes, uint64_t{81559} << 20);
  EXPECT_EQ(used[1].used_bytes, uint64_t{4} << 20);
}

TEST(GpuUseTest, AProcessWithoutMemoryOfAGpuDoesNotUseIt) {
  const GpuUses uses = ReadGpuUses(kTwoGpus, "10, GPU-aa, [N/A]\n");
  EXPECT_EQ(UsedBy({11}, uses).size(), 0U);
  const auto used = UsedBy({10}, uses);  // its driver does not tell how much
  ASSERT_EQ(used.size(), 1U);
  EXPECT_EQ(used[0].used_bytes, 0U);
}

}  // namespace
}  // namespace tfdist::agent
