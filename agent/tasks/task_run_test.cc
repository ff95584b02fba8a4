#include "agent/tasks/task_run.h"

#include <gtest/gtest.h>

#include "base/testing/temporary_folder.h"

namespace tfdist::agent {
namespace {

void WriteSpec(const std::filesystem::path& task_folder, int attempt, int run) {
  RunSpec spec;
  spec.task = "worker:0";
  spec.argv = {"true"};
  spec.attempt = attempt;
  spec.run = run;
  WriteRunSpec(task_folder / RunFolderName(attempt, run), spec);
}

TEST(TaskRun, TheNewestIsThatOfTheLatestAttempt) {
  const TemporaryFolder folder;
  EXPECT_EQ(FindNewestRun(folder.path()), std::nullopt);
  WriteSpec(folder.path(), 1, 9);
  WriteSpec(folder.path(), 2, 1);
  std::filesystem::create_directory(folder.path() / "run-3-1.part");
  EXPECT_EQ(FindNewestRun(folder.path()), std::pair(2, 1));
}

// An agent that is killed while it makes a run leaves a folder; the next one makes the run anew.
TEST(TaskRun, OneWithoutASpecIsNone) {
  const TemporaryFolder folder;
  WriteSpec(folder.path(), 1, 1);
  std::filesystem::create_directory(folder.path() / RunFolderName(1, 2));
  EXPECT_EQ(FindNewestRun(folder.path()), std::pair(1, 1));
  WriteSpec(folder.path(), 1, 2);
  EXPECT_EQ(FindNewestRun(folder.path()), std::pair(1, 2));
}

}  // namespace
}  // namespace tfdist::agent
