#include "agent/tasks/task_run.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "agent/log/log_writer.h"
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

std::string LastLinesOfRun(const std::filesystem::path& folder, int run) {
  protocol::TaskExit exit;
  exit.code = 1;
  WriteSpec(folder, 1, run);
  WriteRunExit(folder / RunFolderName(1, run), exit);
  return ReadRunView(folder, 1, run, LastLines::kAsTheyAre).last_lines.value_or("none");
}

void Write(const std::filesystem::path& folder, int run, const std::string& text) {
  LogWriter({.folder = folder, .run = run}).Append(protocol::Stream::kStdout, text);
}

TEST(TaskRun, ItsLastLinesAreItsOwnAndNotThoseOfTheRunBefore) {
  const TemporaryFolder folder;
  Write(folder.path(), 1, "of the first run\n");
  EXPECT_EQ(LastLinesOfRun(folder.path(), 2), "") << "it has said nothing";
  Write(folder.path(), 2, "of the second run\n");
  EXPECT_EQ(LastLinesOfRun(folder.path(), 2), "of the second run\n");
  std::string many;
  for (int i = 0; i < 30; ++i) many += "line " + std::to_string(i) + "\n";
  Write(folder.path(), 3, many);
  const std::string last = LastLinesOfRun(folder.path(), 3);
  EXPECT_EQ(std::count(last.begin(), last.end(), '\n'), 20);
  EXPECT_TRUE(last.starts_with("line 10\n"));
}

}  // namespace
}  // namespace tfdist::agent
