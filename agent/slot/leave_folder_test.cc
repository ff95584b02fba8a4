#include "agent/slot/leave_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "agent/process/run_folder.h"
#include "base/file.h"
#include "base/testing/temporary_folder.h"

namespace tfdist::agent {
namespace {

// They may be secrets of the user's.
TEST(LeaveFolder, NoVariablesOfATaskStayBehindItsJob) {
  const TemporaryFolder temporary;
  const SlotFolder folder(temporary.path());
  const std::filesystem::path run = folder.TaskFolder("worker:0") / RunFolderName(1, 1);
  WriteContainerEnv(run, "TOKEN=x");
  WriteRunSpec(run, {.task = "worker:0", .argv = {"true"}, .env = {}, .cwd = "/"});
  for (const char* name : {"env.part", "spec.part", "container", "pid"}) {
    ReplaceFile(run / name, "x", 0600);
  }
  WriteRunExit(run, {.code = 0, .error = {}});
  NoteThatAllHasEnded(run);
  LeaveFolder(folder);
  std::vector<std::string> left;
  for (const auto& file : std::filesystem::directory_iterator(run)) {
    left.push_back(file.path().filename());
  }
  EXPECT_THAT(left, testing::UnorderedElementsAre("container", "pid", "exit"));
}

}  // namespace
}  // namespace tfdist::agent
