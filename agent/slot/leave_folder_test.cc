#include "agent/slot/leave_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "agent/process/run_folder.h"
#include "agent/slot/task_files.h"
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

// `pull` may look at any time.
TEST(LeaveFolder, WhoLooksWhileACopyIsRemovedDoesNotFindItRemovedBySomebodyElse) {
  const TemporaryFolder temporary;
  const SlotFolder folder(temporary.path());
  for (int round = 0; round < 300; ++round) {
    MakeWorkFolder(folder, false);
    ReplaceFile(folder.work() / "given", "x", 0600);
    RememberUnpacked(folder);
    std::atomic<bool> is_removed = false;
    std::atomic<bool> was_gone = false;
    std::thread looks([&] {
      while (!is_removed) was_gone = was_gone || IsWorkFolderGone(folder);
    });
    RemoveUnchangedCopy(folder);
    is_removed = true;
    looks.join();
    ASSERT_FALSE(was_gone);
    ASSERT_FALSE(std::filesystem::exists(folder.work()));
  }
}

}  // namespace
}  // namespace tfdist::agent
