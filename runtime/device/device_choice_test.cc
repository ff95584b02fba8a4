#include "runtime/device/device_choice.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/testing/temporary_folder.h"

namespace tfdist::runtime {
namespace {

using ChoiceKind = DeviceChoice::Kind;
using ::testing::HasSubstr;

TEST(DeviceChoice, IsReadAsItIsWritten) {
  EXPECT_EQ(ParseDeviceChoice("auto"), (DeviceChoice{ChoiceKind::kAuto, 0}));
  EXPECT_EQ(ParseDeviceChoice("cpu"), (DeviceChoice{ChoiceKind::kCpu, 0}));
  EXPECT_EQ(ParseDeviceChoice("cuda"), (DeviceChoice{ChoiceKind::kCuda, 0}));
  EXPECT_EQ(ParseDeviceChoice("cuda:3"), (DeviceChoice{ChoiceKind::kCuda, 3}));
}

TEST(DeviceChoice, RefusesWhatNamesNoDevice) {
  for (const char* text : {"", "gpu", "cuda:", "cuda:-1", "cuda:1x", "cuda:9999", "cuda1", "CPU"}) {
    try {
      (void)ParseDeviceChoice(text);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.phase(), Phase::kUsage);
      EXPECT_EQ(error.cause(),
                "--device: expected auto, cpu, cuda or cuda:N, got " + std::string(text));
    }
  }
}

TEST(DeviceChoice, TheExecutableForTheCpuHasTheCpuAlone) {
  std::vector<std::string> said;  // where this machine has GPUs
  const Say say = [&](const std::string& line) { said.push_back(line); };
  EXPECT_STREQ(MakeCpuDevice({ChoiceKind::kAuto, 0}, say)->name(), "CPU");
  EXPECT_STREQ(MakeCpuDevice({ChoiceKind::kCpu, 0}, say)->name(), "CPU");
  try {
    (void)MakeCpuDevice({ChoiceKind::kCuda, 2}, say);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_THAT(error.cause(), HasSubstr("--device cuda:2: this executable computes on the CPU"));
    EXPECT_THAT(error.remedy(), HasSubstr("tfdist-runtime-cuda"));
  }
  EXPECT_LE(said.size(), CountGpusOfTheHost() > 0 ? 1U : 0U);
}

TEST(DeviceChoice, GpusOfTheHostAreCountedWhereTheDriverListsThem) {
  const TemporaryFolder folder;
  EXPECT_EQ(CountGpusOfTheHost(folder.path() / "none"), 0U);
  EXPECT_EQ(CountGpusOfTheHost(folder.path()), 0U);
  std::filesystem::create_directory(folder.path() / "0000:04:00.0");
  std::filesystem::create_directory(folder.path() / "0000:05:00.0");
  EXPECT_EQ(CountGpusOfTheHost(folder.path()), 2U);
}

}  // namespace
}  // namespace tfdist::runtime
