#include "agent/slot/slot_folder.h"

#include <gtest/gtest.h>

namespace tfdist::agent {
namespace {

TEST(SlotFolder, NamesATasksFolderWithoutAColon) {
  EXPECT_EQ(TaskFolderName("worker:12"), "worker-12");
}

}  // namespace
}  // namespace tfdist::agent
