#include "runtime/cuda/check.h"

#include <gmock/gmock.h>

#include "runtime/testing/expect_error.h"

namespace tfdist::runtime::cuda {
namespace {

using ::testing::HasSubstr;

TEST(CudaCheck, SaysWhatFailedInWordsAndByCudasName) {
  EXPECT_NO_THROW(Check(cudaSuccess, "copying"));
  runtime::testing::ExpectError(
      [] { Check(cudaErrorIllegalAddress, "copying from it"); }, Phase::kRun,
      "the GPU: copying from it: an illegal memory access was encountered "
      "(cudaErrorIllegalAddress)");
}

TEST(CudaCheck, HasARemedyWhereTheGpusMemoryIsFullOrTheGpuIsTooOld) {
  EXPECT_THAT(CudaFailure(cudaErrorMemoryAllocation, "x").remedy(), HasSubstr("a smaller --batch"));
  EXPECT_THAT(CudaFailure(cudaErrorNoKernelImageForDevice, "x").remedy(), HasSubstr("8.0"));
}

}  // namespace
}  // namespace tfdist::runtime::cuda
