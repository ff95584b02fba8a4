#include "agent/slot/slot_folder.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace tfdist::agent
