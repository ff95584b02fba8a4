#include "agent/tasks/gpu_share.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace tfdist::agent {
namespace {

using protocol::GpuShare;
using testing::HasSubstr;

TEST(GpuShare, PartsAreEqualAndOfNeighbours) {
  EXPECT_EQ(VisibleGpus({0, 2}, 4, "worker:0"), "0,1");
  EXPECT_EQ(VisibleGpus({1, 2}, 4, "worker:1"), "2,3");
  EXPECT_EQ(VisibleGpus({0, 2}, 5, "worker:0"), "0,1");  // the fifth is left over
  EXPECT_EQ(VisibleGpus({1, 2}, 5, "worker:1"), "2,3");
  EXPECT_EQ(VisibleGpus({2, 3}, 3, "worker:2"), "2");
}

TEST(GpuShare, WithoutGpusThereIsNothingToShare) { EXPECT_EQ(VisibleGpus({0, 2}, 0, "a:0"), ""); }

TEST(GpuShare, FewerGpusThanTasksIsAnErrorWithBothNumbers) {
  try {
    VisibleGpus({2, 4}, 3, "worker:2");
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_THAT(e.cause(), HasSubstr("4 tasks that use GPUs"));
    EXPECT_THAT(e.cause(), HasSubstr("it has 3 (worker:2 is one of them)"));
    EXPECT_FALSE(e.remedy().empty());
  }
}

TEST(GpuShare, OnlyTheLinesOfGpusCountInTheListing) {
  EXPECT_EQ(CountListedGpus("GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-6d2b)\n"
                            "  MIG 3g.20gb     Device  0: (UUID: MIG-e3b2)\n"
                            "GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-77aa)\n"),
            2);
  EXPECT_EQ(CountListedGpus("No devices found.\n"), 0);
  EXPECT_EQ(CountListedGpus("GPU 0: without a newline"), 1);
  EXPECT_EQ(CountListedGpus(""), 0);
}

}  // namespace
}  // namespace tfdist::agent
