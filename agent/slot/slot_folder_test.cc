#include "agent/slot/slot_folder.h"

#include <gtest/gtest.h>

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
