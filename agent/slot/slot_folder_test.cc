#include "agent/slot/slot_folder.h"

#include <gtest/gtest.h>

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
