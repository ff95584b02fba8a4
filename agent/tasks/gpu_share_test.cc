#include "agent/tasks/gpu_share.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace tfdist::agent {
namespace {

using protocol::GpuShare;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> Gpus(size_t count) {
  std::vector<std::string> gpus;
  for (size_t number = 0; number < count; ++number) gpus.push_back(std::to_string(number));
  return gpus;
}

TEST(GpuShare, PartsAreEqualAndOfNeighbours) {
  EXPECT_EQ(VisibleGpus({0, 2}, Gpus(4), "worker:0"), "0,1");
  EXPECT_EQ(VisibleGpus({1, 2}, Gpus(4), "worker:1"), "2,3");
  EXPECT_EQ(VisibleGpus({0, 2}, Gpus(5), "worker:0"), "0,1");  // the fifth is left over
  EXPECT_EQ(VisibleGpus({1, 2}, Gpus(5), "worker:1"), "2,3");
  EXPECT_EQ(VisibleGpus({2, 3}, Gpus(3), "worker:2"), "2");
}

TEST(GpuShare, WithoutGpusThereIsNothingToShare) { EXPECT_EQ(VisibleGpus({0, 2}, {}, "a:0"), ""); }

TEST(GpuShare, FewerGpusThanTasksIsAnErrorWithBothNumbers) {
  try {
    VisibleGpus({2, 4}, Gpus(3), "worker:2");
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_THAT(e.cause(), HasSubstr("4 tasks that use GPUs"));
    EXPECT_THAT(e.cause(), HasSubstr("it has 3 (role worker)"));
    EXPECT_FALSE(e.remedy().empty());
  }
}

std::vector<std::string> Ids(std::string_view listing) {
  std::vector<std::string> ids;
  for (const HostGpu& gpu : GpusInListing(listing).gpus) ids.push_back(gpu.id);
  return ids;
}

std::string WhyNotListed(std::string_view listed, const HostGpus& host) {
  try {
    CheckListedGpus(listed, host, "worker:0");
    return "";
  } catch (const Error& error) {
    return error.cause();
  }
}

TEST(GpuShare, AListedGpuThatIsNotThereIsAnErrorWithThoseThatAre) {
  const HostGpus two = GpusInListing(
      "GPU 0: NVIDIA H100 (UUID: GPU-6d2b-1)\nGPU 1: NVIDIA H100 (UUID: GPU-77aa-2)\n");
  const HostGpus divided = GpusInListing(
      "GPU 0: NVIDIA H100 (UUID: GPU-6d2b)\n  MIG 1g.10gb Device  0: (UUID: MIG-e3b2)\n");
  CheckListedGpus("1,0", two, "worker:0");
  CheckListedGpus("GPU-77aa,GPU-6d2b-1", two, "worker:0");
  CheckListedGpus("", two, "worker:0");
  CheckListedGpus("0", divided, "worker:0");
  CheckListedGpus("MIG-e3b2", divided, "worker:0");
  CheckListedGpus("0", divided, "worker:0");
  EXPECT_THAT(WhyNotListed("7", divided), testing::HasSubstr("is to use GPU 7"));
  EXPECT_EQ(WhyNotListed("0,2", two),
            "worker:0 is to use GPU 2, which this host does not have: it has 2 GPUs (0, 1)");
  EXPECT_EQ(WhyNotListed("GPU-88", two),
            "worker:0 is to use GPU GPU-88, which this host does not have: it has 2 GPUs "
            "(GPU-6d2b-1, GPU-77aa-2)");
  EXPECT_EQ(
      WhyNotListed("MIG-77f0", divided),
      "worker:0 is to use GPU MIG-77f0, which this host does not have: it has 1 GPU (MIG-e3b2)");
}

TEST(GpuShare, AListedGpuOfAHostThatHasNoneIsAnError) {
  EXPECT_THAT(WhyNotListed("0,1", {}),
              HasSubstr("worker:0 is to use GPUs 0,1, and no GPU is found on this host: "));
  EXPECT_EQ(WhyNotListed("", {}), "") << "gpus = []";
}

TEST(GpuShare, RocmSmiListsAmdsGpus) {
  const HostGpus found = GpusInRocmListing(
      "\n======== ROCm System Management Interface ========\n"
      "======== Product Info ========\n"
      "GPU[0]\t\t: Card Series: \t\tAMD Instinct MI250X\n"
      "GPU[0]\t\t: Card Model: \t\t0x740c\n"
      "GPU[1]\t\t: Card Series: \t\tAMD Instinct MI250X\n"
      "======== End of ROCm SMI Log ========\n");
  ASSERT_EQ(found.gpus.size(), 2U);
  EXPECT_EQ(found.gpus[1].id, "1");
  EXPECT_EQ(found.gpus[1].name, "AMD Instinct MI250X");
  EXPECT_THAT(GpusInRocmListing("WARNING: No AMD GPUs specified\n").gpus, IsEmpty());
}

TEST(GpuShare, TheSlicesOfADividedGpuCountInItsPlace) {
  EXPECT_THAT(Ids("GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-6d2b)\n"
                  "  MIG 3g.20gb     Device  0: (UUID: MIG-e3b2)\n"
                  "  MIG 3g.20gb     Device  1: (UUID: MIG-77f0)\n"
                  "GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-77aa)\n"),
              ElementsAre("MIG-e3b2", "MIG-77f0", "1"));
  EXPECT_EQ(VisibleGpus({1, 3}, {"MIG-e3b2", "MIG-77f0", "1"}, "worker:1"), "MIG-77f0");
}

TEST(GpuShare, WhatIsNoGpuIsATroubleBesideThem) {
  const HostGpus found = GpusInListing(
      "GPU 0: NVIDIA A100 (UUID: GPU-6d2b)\r\nGPU 1: NVIDIA A100 (UUID: GPU-77aa)\n"
      "WARNING: infoROM is corrupted at gpu 0000:C1:00.0\n");
  ASSERT_EQ(found.gpus.size(), 2U);
  EXPECT_EQ(found.gpus[0].name, "NVIDIA A100");
  EXPECT_EQ(found.trouble, "WARNING: infoROM is corrupted at gpu 0000:C1:00.0");
  EXPECT_FALSE(found.failed());
}

TEST(GpuShare, AListingWithoutGpusHasNone) {
  EXPECT_THAT(Ids("No devices found.\n"), IsEmpty());
  EXPECT_THAT(Ids("GPU 0000:C1:00.0: is lost"), IsEmpty());
  EXPECT_THAT(Ids("GPU 0: without a newline"), ElementsAre("0"));
  EXPECT_THAT(Ids(""), IsEmpty());
}

}  // namespace
}  // namespace tfdist::agent
