#include "agent/slot/run_folders.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "agent/process/run_folder.h"
#include "agent/slot/slot_census.h"
#include "base/file.h"
#include "base/testing/temporary_folder.h"

namespace tfdist::agent {
namespace {

namespace fs = std::filesystem;
using testing::UnorderedElementsAre;

class RunFoldersTest : public testing::Test {
 protected:
  // A run whose holder has this start time, beside its own pid: another than the process's, and it is gone.
  void Make(const fs::path& run, bool holder_runs, bool has_exit) const {
    WriteContainerEnv(run, "TOKEN=x");
    ReplaceFile(run / "container", "5f5f", 0600);
    WriteRunSpec(run, {.task = "worker:0", .argv = {"true"}, .env = {}, .cwd = "/"});
    ProcessId holder = ReadProcess(getpid()).value().id;
    if (!holder_runs) ++holder.start_time;
    WriteRunPids(run, {.holder = holder, .task = {.pid = 4, .start_time = 5}, .boot_id = BootId()});
    if (has_exit) WriteRunExit(run, {.code = 3, .error = {}});
    if (has_exit && !holder_runs) NoteThatAllHasEnded(run);
  }
  [[nodiscard]] fs::path Run(int attempt, int run) const {
    return task_ / RunFolderName(attempt, run);
  }
  [[nodiscard]] std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& one : fs::directory_iterator(task_)) names.push_back(one.path().filename());
    return names;
  }

  const TemporaryFolder temporary_;
  const SlotFolder folder_{temporary_.path()};
  const fs::path task_ = folder_.TaskFolder("worker:0");
};

TEST_F(RunFoldersTest, TheNewestRunsStayInTheOrderOfTheirNumbers) {
  for (int run = 1; run <= 20; ++run) Make(Run(1, run), false, true);
  for (int run = 1; run <= 8; ++run) Make(Run(2, run), false, true);
  RemoveOldRuns(task_);
  EXPECT_THAT(Names(),
              UnorderedElementsAre("run-2-8", "run-2-7", "run-2-6", "run-2-5", "run-2-4", "run-2-3",
                                   "run-2-2", "run-2-1", "run-1-20", "run-1-19", "run-1-18"));
  EXPECT_EQ(FindNewestRun(task_), (std::pair{2, 8}));
}

TEST_F(RunFoldersTest, WhatTheCensusNeedsAndWhatIsNotOursStays) {
  Make(Run(1, 1), false, false);  // its exit was lost
  Make(Run(1, 4), false,
       false);  // its holder was killed between the task's end and that of its descendants
  WriteRunExit(Run(1, 4), {.code = 3, .error = {}});
  Make(Run(1, 2), true, true);  // its holder still moves output
  Make(Run(1, 3), false, true);
  ReplaceFile(Run(1, 3) / "checkpoint", "of the task", 0600);
  ReplaceFile(task_ / "0000000000000000.log", "text", 0600);
  for (int run = 1; run <= 11; ++run) Make(Run(2, run), false, true);
  RemoveOldRuns(task_);
  EXPECT_TRUE(fs::exists(Run(1, 2) / "spec"));
  EXPECT_TRUE(fs::exists(Run(1, 3) / "checkpoint"));
  EXPECT_TRUE(fs::exists(task_ / "0000000000000000.log"));
  std::vector<std::string> lost;
  for (const LostRun& run : FindLostRuns(folder_)) lost.push_back(run.name);
  EXPECT_THAT(lost, UnorderedElementsAre("worker-0, run-1-1", "worker-0, run-1-4"));
}

// An agent was killed between two files: no census takes what is left for a run whose exit was lost.
TEST_F(RunFoldersTest, ARunThatWasRemovedInPartIsNoLostRunAndGoesTheNextTime) {
  Make(Run(1, 1), false, true);
  fs::remove(Run(1, 1) / "spec");
  fs::remove(Run(1, 1) / "pid");
  for (int run = 1; run <= 11; ++run) Make(Run(2, run), false, true);
  EXPECT_TRUE(FindLostRuns(folder_).empty());
  RemoveOldRuns(task_);
  EXPECT_FALSE(fs::exists(Run(1, 1)));
  EXPECT_EQ(Names().size(), 11U);
}

}  // namespace
}  // namespace tfdist::agent
