#include "agent/data/data_folder.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include "agent/files/folder_lock.h"
#include "base/failpoint.h"
#include "base/hash.h"
#include "base/testing/temporary_folder.h"

namespace tfdist::agent {
namespace {

namespace fs = std::filesystem;

constexpr auto kAny = fs::file_time_type::max();

class RemoveDataTest : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(folder_ / "content/below");
    fs::create_directories(folder_ / "packed");
    for (const char* name : {"lock", "content/a", "content/below/b", "done"}) {
      std::ofstream(folder_ / name) << "";
    }
    fs::permissions(folder_ / "content/below", fs::perms::owner_read | fs::perms::owner_exec);
    fs::permissions(folder_.parent_path(), fs::perms::owner_all);
    fs::permissions(folder_, fs::perms::owner_all);
  }

  const TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path() / "data" / Sha256Hex("data");
};

TEST_F(RemoveDataTest, RemovesAllOfIt) {
  EXPECT_EQ(RemoveData(folder_, kAny), std::nullopt);
  EXPECT_FALSE(fs::exists(folder_));
}

TEST_F(RemoveDataTest, CutOffAfterItsFirstStepLeavesNothingThatCounts) {
  const pid_t pid = fork();
  if (pid == 0) {
    SetFailPointHandler([](std::string_view name) {
      if (name == "data unmarked") _exit(0);
    });
    (void)RemoveData(folder_, kAny);
    _exit(1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(fs::exists(folder_ / "content/below/b"));
  EXPECT_FALSE(fs::exists(folder_ / "done"));
}

TEST_F(RemoveDataTest, StaysWhileAJobUnpacksIt) {
  const auto lock = TryLockFolder(folder_);
  std::ofstream(folder_ / "lock") << "digits-1";
  EXPECT_EQ(RemoveData(folder_, kAny), (WhyItStays{"digits-1 uses it", true}));
  EXPECT_TRUE(fs::exists(folder_ / "done"));
}

TEST_F(RemoveDataTest, StaysWhereAJobHasUsedItSince) {
  const auto hour_ago = fs::last_write_time(folder_ / "done") - std::chrono::hours(1);
  EXPECT_EQ(RemoveData(folder_, hour_ago), (WhyItStays{"a job may use it", true}));
  EXPECT_TRUE(fs::exists(folder_ / "done"));
}

// What is mounted there is somebody's own.
TEST_F(RemoveDataTest, StaysWholeWhereSomethingIsMountedInIt) {
  const fs::path users = temporary_.path() / "users";
  fs::create_directories(users);
  std::ofstream(users / "file") << "";
  const fs::path point = folder_ / "content/below";
  if (mount(users.c_str(), point.c_str(), nullptr, MS_BIND, nullptr) != 0) {
    GTEST_SKIP() << "this account may not mount";
  }
  EXPECT_EQ(
      RemoveData(folder_, kAny),
      WhyItStays{fmt::format("something is mounted at {}: unmount it first", point.string())});
  ASSERT_EQ(umount(point.c_str()), 0);
  EXPECT_TRUE(fs::exists(folder_ / "done"));
  EXPECT_TRUE(fs::exists(folder_ / "packed"));
  EXPECT_TRUE(fs::exists(users / "file"));
}

TEST_F(RemoveDataTest, RemovesALinkAndNotWhatItLeadsTo) {
  const fs::path users = temporary_.path() / "users";
  fs::create_directories(users);
  std::ofstream(users / "file") << "";
  fs::create_directory_symlink(users, folder_ / "link");
  EXPECT_EQ(RemoveData(folder_, kAny), std::nullopt);
  EXPECT_TRUE(fs::exists(users / "file"));
}

}  // namespace
}  // namespace tfdist::agent
