#include "runtime/cuda/gpus.h"

#include <gmock/gmock.h>

#include "runtime/testing/expect_error.h"

namespace tfdist::runtime::cuda {
namespace {

using runtime::testing::ExpectError;
using ::testing::HasSubstr;
using ::testing::Optional;

constexpr int kThirteen = 13000;

// As CUDA answers in each case (seen: the first here, the others are those of its documentation).
constexpr GpuCount kNoDriver{cudaErrorInsufficientDriver, 0, 0, kThirteen};
constexpr GpuCount kOldDriver{cudaErrorInsufficientDriver, 0, 12020, kThirteen};
constexpr GpuCount kNoDevice{cudaErrorNoDevice, 0, kThirteen, kThirteen};
constexpr GpuCount kBroken{cudaErrorSystemNotReady, 0, kThirteen, kThirteen};
constexpr GpuCount kTwo{cudaSuccess, 2, kThirteen, kThirteen};

TEST(Gpus, NoneIsAReasonForTheCpuWithoutDriverAndWithoutVisibleGpuAlone) {
  EXPECT_THAT(ReasonForNone(kNoDriver), Optional(std::string("this host has no NVIDIA driver")));
  EXPECT_THAT(ReasonForNone(kNoDevice), Optional(std::string("no GPU is visible")));
  EXPECT_EQ(ReasonForNone(kOldDriver), std::nullopt);
  EXPECT_EQ(ReasonForNone(kBroken), std::nullopt);
  EXPECT_EQ(ReasonForNone(kTwo), std::nullopt);
}

TEST(Gpus, ErrorsSayWhatIsMissingAndWhatToDo) {
  ExpectError([] { RequireGpu(kNoDriver, 0); }, Phase::kConfig,
              "there is no NVIDIA driver (libcuda.so.1) on this host");
  ExpectError([] { RequireGpu(kOldDriver, 0); }, Phase::kConfig,
              "the NVIDIA driver is too old: it can do CUDA 12.2, and this executable needs 13.0");
  ExpectError([] { RequireGpu(kNoDevice, 0); }, Phase::kConfig, "none is visible");
  ExpectError([] { RequireGpu(kBroken, 0); }, Phase::kConfig, "(cudaErrorSystemNotReady)");
  ExpectError([] { RequireGpu(kTwo, 2); }, Phase::kConfig,
              "there is no GPU 2: this process sees 2, counted from 0");
  EXPECT_NO_THROW(RequireGpu(kTwo, 1));
  for (const GpuCount& count : {kNoDriver, kOldDriver, kNoDevice, kBroken}) {
    try {
      RequireGpu(count, 0);
    } catch (const Error& error) {
      EXPECT_THAT(error.remedy(), HasSubstr("--device cpu computes without"));
    }
  }
}

TEST(Gpus, OfThisMachineAreCountedOrThereIsAnError) {
  const GpuCount count = CountGpus();
  EXPECT_GE(count.runtime_version, 12000);
  EXPECT_EQ(count.error == cudaSuccess, count.gpus > 0);
  if (count.gpus > 0) {
    EXPECT_NO_THROW(RequireGpu(count, 0));
  } else {
    EXPECT_THROW(RequireGpu(count, 0), Error);
  }
}

}  // namespace
}  // namespace tfdist::runtime::cuda
