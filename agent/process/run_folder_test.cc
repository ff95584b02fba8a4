#include "agent/process/run_folder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <unistd.h>

#include <fstream>

#include "base/error.h"
#include "base/file.h"
#include "base/testing/temporary_folder.h"

namespace tfdist::agent {
namespace {

class RunFolderTest : public testing::Test {
 protected:
  void SetUp() override { run_ = folder_ / "run-1-1"; }

  static RunSpec Spec() {
    return {.task = "worker:2",
            .argv = {"python3", "-c", "print('$(x)')\n", ""},
            .env = {"A=", std::string("RAW=\xff\xfe\n")},
            .cwd = "/w",
            .merged_output = true,
            .log_limit_bytes = 1ULL << 40,
            .grace_ms = 5,
            .attempt = 3,
            .run = 4};
  }
  void Overwrite(const std::string& name, const std::string& content) {
    std::ofstream(run_ / name, std::ios::binary | std::ios::trunc) << content;
  }
  static RunPids Self() {
    const ProcessId id = ReadProcess(getpid()).value().id;
    return {.holder = id, .task = {.pid = 4, .start_time = 5}, .boot_id = BootId()};
  }

  const TemporaryFolder temporary_;
  std::filesystem::path folder_ = temporary_.path();
  std::filesystem::path run_;
};

TEST_F(RunFolderTest, ASpecComesBackAsItWas) {
  WriteRunSpec(run_, Spec());
  EXPECT_EQ(ReadRunSpec(run_), Spec());
}

TEST_F(RunFolderTest, ATornOrDamagedSpecIsRefused) {
  WriteRunSpec(run_, Spec());
  const std::string whole = ReadFileIfExists(run_ / "spec", 10'000).value();
  for (size_t size = 0; size < whole.size(); ++size) {
    Overwrite("spec", whole.substr(0, size));
    EXPECT_THROW((void)ReadRunSpec(run_), Error) << size;
  }
  for (size_t position = 0; position < whole.size(); ++position) {
    std::string damaged = whole;
    damaged[position] = static_cast<char>(damaged[position] ^ 1);
    Overwrite("spec", damaged);
    EXPECT_THROW((void)ReadRunSpec(run_), Error) << position;
  }
  EXPECT_THROW((void)ReadRunSpec(folder_ / "none"), Error);
}

TEST_F(RunFolderTest, ANewRunHasNeitherPidsNorExit) {
  WriteRunSpec(run_, Spec());
  const RunState state = ReadRunState(run_);
  EXPECT_FALSE(state.pids || state.exit || state.holder_running);
}

TEST_F(RunFolderTest, AHolderRunsIfThatVeryProcessOfThisBootDoes) {
  WriteRunSpec(run_, Spec());
  WriteRunPids(run_, Self());
  EXPECT_TRUE(ReadRunState(run_).holder_running);
  EXPECT_EQ(ReadRunState(run_).pids->task.pid, 4);

  RunPids other = Self();
  ++other.holder.start_time;  // the pid was given to another process
  WriteRunPids(run_, other);
  EXPECT_FALSE(ReadRunState(run_).holder_running);
  other = Self();
  other.boot_id = "another boot";
  WriteRunPids(run_, other);
  EXPECT_FALSE(ReadRunState(run_).holder_running);
}

TEST_F(RunFolderTest, ARunIsLostUntilTheEndOfAllThatItHadStartedIsNoted) {
  WriteRunSpec(run_, Spec());
  EXPECT_FALSE(ReadRunState(run_).lost) << "it has not begun";
  WriteRunPids(run_, Self());
  EXPECT_FALSE(ReadRunState(run_).lost) << "its holder runs";
  RunPids killed = Self();
  ++killed.holder.start_time;
  WriteRunPids(run_, killed);
  EXPECT_TRUE(ReadRunState(run_).lost);
  WriteRunExit(run_, {.code = 3, .error = {}});
  EXPECT_TRUE(ReadRunState(run_).lost) << "its task has ended, and that is all that is known";
  WriteRunExit(run_, {.code = 3, .error = {}, .lost_bytes = 7});
  EXPECT_FALSE(ReadRunState(run_).lost) << "a holder corrects it once nothing is left";
  NoteThatAllHasEnded(run_);
  EXPECT_FALSE(ReadRunState(run_).lost);
}

TEST_F(RunFolderTest, ARunOfAnotherBootIsNotLost) {
  WriteRunSpec(run_, Spec());
  RunPids other = Self();
  other.boot_id = "another boot";
  WriteRunPids(run_, other);
  EXPECT_FALSE(ReadRunState(run_).lost);
}

TEST_F(RunFolderTest, AnExitComesBackAndALongReasonIsCut) {
  WriteRunSpec(run_, Spec());
  EXPECT_FALSE(ReadRunState(run_).exit);
  WriteRunExit(run_, {.code = 0, .signal = 15, .by_us = true, .error = std::string(10'000, 'e')});
  const protocol::TaskExit exit = ReadRunState(run_).exit.value();
  EXPECT_EQ(exit.signal, 15);
  EXPECT_TRUE(exit.by_us);
  EXPECT_EQ(exit.error, std::string(3840, 'e'));
}

TEST_F(RunFolderTest, ALaterExitReplacesTheFirstOnAFullDisk) {
  std::filesystem::create_directory(run_);
  if (mount("tfdist-test", run_.c_str(), "tmpfs", 0, "size=64k") != 0) {
    GTEST_SKIP() << "cannot mount a small disk here (not root)";
  }
  WriteRunSpec(run_, Spec());
  {
    const std::string ballast(1 << 20, 'b');
    const UniqueFd fd = OpenFile(run_ / "ballast", O_WRONLY | O_CREAT);
    while (write(fd.get(), ballast.data(), ballast.size()) > 0) continue;
  }
  EXPECT_NO_THROW(WriteRunExit(run_, {.code = 3, .error = {}, .lost_bytes = 10}));
  EXPECT_EQ(ReadRunState(run_).exit->lost_bytes, 10U);
  EXPECT_NO_THROW(WriteRunExit(run_, {.code = 3, .error = {}, .lost_bytes = 20}));
  EXPECT_EQ(ReadRunState(run_).exit->lost_bytes, 20U);
  EXPECT_EQ(ReadRunState(run_).exit->code, 3);
  umount2(run_.c_str(), MNT_DETACH);
}

TEST_F(RunFolderTest, ATornExitCountsAsNotWritten) {
  WriteRunSpec(run_, Spec());
  WriteRunExit(run_, {.code = 3, .error = {}});
  const std::string whole = ReadFileIfExists(run_ / "exit", 10'000).value();
  Overwrite("exit", whole.substr(0, whole.size() - 1));
  EXPECT_FALSE(ReadRunState(run_).exit);
}

TEST_F(RunFolderTest, NamesOfFolders) { EXPECT_EQ(RunFolderName(2, 7), "run-2-7"); }

}  // namespace
}  // namespace tfdist::agent
