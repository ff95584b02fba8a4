#include "agent/start/retention.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>

#include "agent/census/census.h"
#include "agent/slot/slot_folder.h"
#include "base/file.h"

namespace tfdist::agent {
namespace {

namespace fs = std::filesystem;

class RetentionTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "retention.XXXXXX";
    base_ = mkdtemp(name.data());
  }
  void TearDown() override { fs::remove_all(base_); }

  SlotFolder MakeSlot(const std::string& job) {
    SlotFolder folder(base_ / "jobs" / job / "h0");
    fs::create_directories(folder.TaskFolder("worker:0"));
    SlotInfo info;
    info.base = base_.string();
    info.job = job;
    info.name = "test";
    WriteSlotInfo(folder, info);
    ReplaceFile(folder.TaskFolder("worker:0") / "1.log", "line\n", 0600);
    return folder;
  }
  static void MakeOld(const fs::path& path, int days) {
    const auto time = fs::file_time_type::clock::now() - std::chrono::hours(24 * days);
    for (const auto& entry : fs::recursive_directory_iterator(path)) {
      fs::last_write_time(entry.path(), time);
    }
    fs::last_write_time(path, time);
  }

  fs::path base_;
};

// A process of the job, as any task's is: by the cookie in its environment.
class Process {
 public:
  explicit Process(const std::string& job) : pid_(fork()) {
    if (pid_ != 0) return;
    const std::string entry = std::string(kCookieName) + "=" + CookieValue(job, 0);
    const char* argv[] = {"sleep", "1000", nullptr};
    const char* env[] = {entry.c_str(), nullptr};
    execve("/bin/sleep", const_cast<char**>(argv), const_cast<char**>(env));
    _exit(127);
  }
  ~Process() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

 private:
  pid_t pid_;
};

TEST_F(RetentionTest, RemovesWhatIsOlderThanAWeekAndKeepsWhatRuns) {
  const SlotFolder old_one = MakeSlot("old");
  const SlotFolder recent = MakeSlot("recent");
  const SlotFolder quiet = MakeSlot("quiet");
  const Process process("quiet");
  while (FindProcesses(CookieValue("quiet", 0), {}).empty()) usleep(1000);  // between fork and exec
  MakeOld(old_one.path(), 8);
  MakeOld(recent.path(), 6);
  MakeOld(quiet.path(), 8);
  RemoveOld(base_);
  EXPECT_FALSE(fs::exists(base_ / "jobs/old"));
  EXPECT_TRUE(fs::exists(recent.info()));
  EXPECT_TRUE(fs::exists(quiet.info()));
}

TEST_F(RetentionTest, KeepsALogThatIsStillWritten) {
  const SlotFolder folder = MakeSlot("old");
  MakeOld(folder.path(), 8);
  ReplaceFile(folder.TaskFolder("worker:0") / "1.log", "another line\n", 0600);
  RemoveOld(base_);
  EXPECT_TRUE(fs::exists(folder.info()));
}

TEST_F(RetentionTest, RemovesAgentsThatWereNotStartedForTwoWeeks) {
  fs::create_directories(base_ / "bin");
  for (const char* name : {"old", "used"}) {
    ReplaceFile(base_ / "bin" / name, "agent", 0500);
    MakeOld(base_ / "bin", 15);
  }
  MarkUsed(base_ / "bin/used");
  RemoveOld(base_);
  EXPECT_FALSE(fs::exists(base_ / "bin/old"));
  EXPECT_TRUE(fs::exists(base_ / "bin/used"));
}

}  // namespace
}  // namespace tfdist::agent
