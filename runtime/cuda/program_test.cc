// tfdist-runtime-cuda where it sees no GPU: on every machine, as CUDA_VISIBLE_DEVICES is empty.
#include <gmock/gmock.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/testing/test_paths.h"
#include "runtime/program/testing/job.h"

namespace tfdist::runtime::testing {
namespace {

using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::HasSubstr;

const std::string kCudaProgram = TestBinDir() / "tfdist-runtime-cuda";
const std::vector<std::string> kNoGpus = {"CUDA_VISIBLE_DEVICES="};

TEST(CudaProgram, TrainsOnTheCpuWhereItSeesNoGpuAndSaysSo) {
  Job job(1, 1, {"--steps", "200"});
  job.Use(kCudaProgram, kNoGpus);
  job.StartAll();
  Child& chief = job["master:0"];
  EXPECT_EQ(chief.Wait(kLimit), 0);
  EXPECT_THAT(chief.lines(), Contains(AnyOf("computes on the CPU: this host has no NVIDIA driver",
                                            "computes on the CPU: no GPU is visible")));
  EXPECT_THAT(chief.lines(), Contains(HasSubstr("final: step 200, test accuracy 0.")));
}

TEST(CudaProgram, EndsWithTheReasonWhereItIsToUseAGpuAndSeesNone) {
  Job job(1, 1, {"--steps", "20", "--device", "cuda:0"});
  job.Use(kCudaProgram, kNoGpus);
  Child& chief = job.StartAlone("master:0");
  EXPECT_EQ(chief.Wait(kLimit), 2);
  EXPECT_THAT(chief.lines(), Contains(HasSubstr("tfdist-runtime: no GPU can be used: ")));
  EXPECT_THAT(chief.lines(), Contains(HasSubstr("  try: ")));
  EXPECT_THAT(chief.lines(), Contains(HasSubstr("--device cpu computes without")));
}

// The toolkit's stand-in for the driver, with which programs are linked.
TEST(CudaProgram, EndsWithCudasErrorWhereTheDriverIsNone) {
  const std::filesystem::path stub = TFDIST_CUDA_STUB;
  if (!std::filesystem::exists(stub)) GTEST_SKIP() << "the toolkit has no " << stub;
  Job job(1, 1, {"--steps", "20"});
  std::filesystem::create_symlink(stub, job.folder().path() / "libcuda.so.1");
  job.Use(kCudaProgram, {"LD_LIBRARY_PATH=" + job.folder().path().string()});
  Child& chief = job.StartAlone("master:0");
  EXPECT_EQ(chief.Wait(kLimit), 2);
  EXPECT_THAT(chief.lines(), Contains(HasSubstr("(cudaErrorStubLibrary)")));
}

TEST(CudaProgram, AServerAsksForNoGpu) {
  Job job(1, 1, {"--steps", "20", "--device", "cuda:7"});
  job.Use(kCudaProgram, kNoGpus);
  Child& server = job.StartAlone("ps:0");
  EXPECT_TRUE(
      server.ReadUntil([](const auto& line) { return line.starts_with("ps:0 listens"); }, kLimit));
}

TEST(CudaProgram, TheOneForTheCpuRefusesToUseAGpu) {
  Job job(1, 1, {"--steps", "20", "--device", "cuda:1"});
  Child& chief = job.StartAlone("master:0");
  EXPECT_EQ(chief.Wait(kLimit), 2);
  EXPECT_THAT(chief.lines(),
              Contains(HasSubstr("--device cuda:1: this executable computes on the CPU alone")));
}

}  // namespace
}  // namespace tfdist::runtime::testing
