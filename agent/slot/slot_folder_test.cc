#include "agent/slot/slot_folder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "agent/slot/mounts.h"
#include "agent/slot/task_files.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/testing/temporary_folder.h"

namespace tfdist::agent {
namespace {

TEST(SlotFolder, NamesATasksFolderWithoutAColon) {
  EXPECT_EQ(TaskFolderName("worker:12"), "worker-12");
}

TEST(SlotFolder, InfersWhatItCanFromThePathWhereTheFileIsMissing) {
  const SlotInfo info =
      ReadOrInferSlotInfo(SlotFolder("/nowhere/base/jobs/my-digits-20260801T120000Z-0a1b2c/h12"));
  EXPECT_EQ(info.base, "/nowhere/base");
  EXPECT_EQ(info.job, "my-digits-20260801T120000Z-0a1b2c");
  EXPECT_EQ(info.name, "my-digits");
  EXPECT_EQ(info.slot, 12);
  EXPECT_NE(info.damage.find("is missing"), std::string::npos) << info.damage;
  for (const char* path : {"/base/jobs/a/12", "/base/jobs/a/h", "/base/jobs/a/h1x", "/base/a/h1"}) {
    EXPECT_THROW((void)ReadOrInferSlotInfo(SlotFolder(path)), Error) << path;
  }
}

TEST(SlotFolder, AMountIsFoundInItsFolderWhateverItIsCalled) {
  const std::string mounts =
      "22 1 8:1 / / rw - ext4 /dev/sda rw\n"
      "36 22 8:1 /data /jobs/a/h0/work/a\\040set\\134 rw,noatime shared:1 - ext4 /dev/sda rw\n"
      "37 22 8:1 / /jobs/a/h1 rw - ext4 /dev/sda rw\n";
  const auto in = [&](const char* folder) {
    return MountIn(mounts, folder).value_or("nowhere").string();
  };
  EXPECT_EQ(in("/jobs/a/h0"), "/jobs/a/h0/work/a set\\");
  EXPECT_EQ(in("/jobs/a/h1"), "/jobs/a/h1");
  EXPECT_EQ(in("/jobs/a/h"), "nowhere");
  EXPECT_EQ(in("/jobs/a/h1/work"), "nowhere");
  EXPECT_EQ(MountIn("garbage\n\n1 2", "/jobs"), std::nullopt);
}

// A link is the user's, and what it leads to as well.
TEST(SlotFolder, ALinkIsRemovedWithoutALookAtWhatItLeadsTo) {
  const TemporaryFolder temporary;
  const auto results = temporary.path() / "results";
  std::filesystem::create_directory(results);
  std::filesystem::permissions(results, std::filesystem::perms{0500});
  std::filesystem::create_directory_symlink(results, temporary.path() / "link");
  EXPECT_EQ(RemoveTree(temporary.path() / "link"), std::nullopt);
  EXPECT_EQ(std::filesystem::status(results).permissions(), std::filesystem::perms{0500});
  EXPECT_FALSE(std::filesystem::exists(temporary.path() / "link"));
}

class LevelTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const SlotFolder& folder : {first_, second_}) {
      MakePrivateFolder(folder.path());
      ReplaceFile(folder.info(), "{}", 0600);
    }
  }
  static bool HasTaskFile(const SlotFolder& folder) {
    return FindTaskFile(folder, SystemClock().Now() + std::chrono::minutes(1)).has_value();
  }

  const TemporaryFolder temporary_;
  const std::filesystem::path job_ = temporary_.path() / "jobs/t-20260801T120000Z-a1b2c3";
  const SlotFolder first_{job_ / "h3"};
  const SlotFolder second_{job_ / "h4"};
};

TEST_F(LevelTest, OneSlotHasItAndKeepsIt) {
  MakeWorkFolder(first_, true);
  MakeWorkFolder(second_, true);  // as of another machine that shares the folder
  EXPECT_EQ(first_.work(), job_ / "run/work");
  EXPECT_EQ(second_.work(), job_ / "h4/work");
  EXPECT_TRUE(std::filesystem::is_directory(first_.work()));
  EXPECT_TRUE(std::filesystem::is_directory(second_.work()));
  EXPECT_EQ(RemoveWorkFolder(first_), std::nullopt);
  MakeWorkFolder(first_, true);  // as where a start is tried again
  EXPECT_EQ(first_.work(), job_ / "run/work");
  EXPECT_EQ(SlotFolder(job_ / "h3").work(), job_ / "run/work");  // of a restarted agent
}

TEST_F(LevelTest, ASlotThatIsNotToHaveItKeepsItsOwnFolder) {
  MakeWorkFolder(second_, false);
  EXPECT_EQ(second_.work(), job_ / "h4/work");
  EXPECT_FALSE(std::filesystem::exists(job_ / "run"));
}

TEST_F(LevelTest, WhatATaskWritesAboveItsWorkFolderIsFoundAndGoesWithItsSlotOnly) {
  MakeWorkFolder(first_, true);
  MakeWorkFolder(second_, false);
  RememberUnpacked(first_);
  RememberUnpacked(second_);
  EXPECT_FALSE(HasTaskFile(first_));
  ReplaceFile(first_.work() / "../result", "theirs", 0600);
  EXPECT_TRUE(HasTaskFile(first_));
  EXPECT_FALSE(HasTaskFile(second_));
  EXPECT_EQ(RemoveSlotFolder(second_), std::nullopt);
  EXPECT_EQ(ReadFileIfExists(job_ / "run/result", 100), "theirs");
  EXPECT_EQ(RemoveSlotFolder(first_), std::nullopt);
  EXPECT_FALSE(std::filesystem::exists(job_));
}

// cp -p, rsync -t, tar: the size is the same, and the time that of before.
TEST_F(LevelTest, AFileThatATaskHasChangedIsFoundAlsoWhereItsTimeIsSetBack) {
  MakeWorkFolder(first_, true);
  const std::filesystem::path file = first_.work() / "model";
  ReplaceFile(file, "ours", 0600);
  RememberUnpacked(first_);
  EXPECT_FALSE(HasTaskFile(first_));
  const auto before = std::filesystem::last_write_time(file);
  WriteAll(OpenFile(file, O_WRONLY).get(), "task", file.string());
  std::filesystem::last_write_time(file, before);
  EXPECT_TRUE(HasTaskFile(first_));
}

TEST_F(LevelTest, GoesBeforeItsSlotAndLeavesTheOther) {
  MakeWorkFolder(first_, true);
  MakeWorkFolder(second_, true);
  std::filesystem::permissions(first_.work(), std::filesystem::perms{0500});
  EXPECT_EQ(RemoveSlotFolder(first_), std::nullopt);
  EXPECT_FALSE(std::filesystem::exists(job_ / "run"));
  EXPECT_EQ(second_.work(), job_ / "h4/work");
  EXPECT_EQ(RemoveSlotFolder(second_), std::nullopt);
}

TEST_F(LevelTest, OneThatIsNotOfTfdistIsLeftAlone) {
  std::filesystem::create_directory(job_ / "run");
  ReplaceFile(job_ / "run/result", "theirs", 0600);
  MakeWorkFolder(first_, true);
  EXPECT_EQ(first_.work(), job_ / "h3/work");
  EXPECT_TRUE(HasTaskFile(second_)) << "whose it is, nobody knows";
  EXPECT_EQ(RemoveLevelOfNoSlot(job_), std::nullopt);
  EXPECT_TRUE(std::filesystem::exists(job_ / "run/result")) << "slots are here";
  EXPECT_EQ(RemoveSlotFolder(first_), std::nullopt);
  EXPECT_EQ(RemoveSlotFolder(second_), std::nullopt);
  EXPECT_TRUE(std::filesystem::exists(job_ / "run/result")) << "nobody's word removes it";
  EXPECT_EQ(RemoveLevelOfNoSlot(job_), std::nullopt);
  EXPECT_FALSE(std::filesystem::exists(job_ / "run"));
}

TEST_F(LevelTest, ALinkInItsPlaceIsNotFollowed) {
  const std::filesystem::path elsewhere = temporary_.path() / "elsewhere";
  std::filesystem::create_directory(elsewhere);
  ReplaceFile(elsewhere / ".slot", "h3\n", 0600);
  std::filesystem::create_directory_symlink(elsewhere, job_ / "run");
  EXPECT_FALSE(first_.HasLevel());
  MakeWorkFolder(first_, true);
  EXPECT_EQ(first_.work(), job_ / "h3/work");
  std::filesystem::remove(job_ / "run");
  MakePrivateFolder(job_ / "run");
  std::filesystem::create_symlink(elsewhere / ".slot", job_ / "run/.slot");
  EXPECT_FALSE(first_.HasLevel());
  std::filesystem::remove(job_ / "run/.slot");
  if (geteuid() != 0) return;
  ReplaceFile(job_ / "run/.slot", "h3\n", 0600);
  EXPECT_TRUE(first_.HasLevel());
  ASSERT_EQ(lchown((job_ / "run").c_str(), 65534, 65534), 0);
  EXPECT_FALSE(first_.HasLevel());
}

// Or the folder would be kept as one that holds results.
TEST(SlotFolder, WhatTfdistWritesIntoItIsNoTasksFile) {
  const TemporaryFolder temporary;
  const SlotFolder folder(temporary.path() / "h0");
  std::filesystem::create_directories(folder.work());
  std::filesystem::create_directories(folder.TaskFolder("worker:0"));
  for (const auto& path :
       {folder.executable(), folder.info(), folder.log(), folder.socket(), folder.key(),
        folder.secret(), folder.description(), folder.runtime(), folder.journal(), folder.reserve(),
        folder.peers(), folder.coordinator(), folder.committed(), folder.orphaned(), folder.left(),
        folder.path() / "runtime-cuda"}) {
    ReplaceFile(path, "ours", 0600);
    EXPECT_FALSE(FindTaskFile(folder, SystemClock().Now() + std::chrono::minutes(1))) << path;
  }
  ReplaceFile(folder.path() / "results.csv", "theirs", 0600);
  EXPECT_TRUE(FindTaskFile(folder, SystemClock().Now() + std::chrono::minutes(1)));
}

}  // namespace
}  // namespace tfdist::agent
