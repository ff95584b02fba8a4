#include "agent/files/shared_mark.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/testing/temporary_folder.h"

namespace tfdist::agent {
namespace {

using testing::HasSubstr;

class SharedMark : public testing::Test {
 protected:
  const TemporaryFolder temporary_;
  std::string path_ = temporary_.path().string();
};

TEST_F(SharedMark, IsFoundWhereItWasMadeAndNowhereElse) {
  EXPECT_FALSE(FindMark(path_, "m1").marked);
  EXPECT_TRUE(MakeMark(path_, "m1").marked);
  EXPECT_TRUE(FindMark(path_, "m1").marked);
  const auto other = FindMark(path_, "m2");
  EXPECT_FALSE(other.marked);
  EXPECT_EQ(other.why, "");
}

TEST_F(SharedMark, LeavesNothingWhenItIsRemoved) {
  MakeMark(path_, "m1");
  RemoveMark(path_, "m1");
  RemoveMark(path_, "m1");
  EXPECT_TRUE(std::filesystem::is_empty(path_));
}

TEST_F(SharedMark, AFolderThatCannotBeUsedIsNamed) {
  EXPECT_THAT(MakeMark(path_ + "/absent", "m").why, HasSubstr("absent: No such file"));
  EXPECT_THAT(FindMark(path_ + "/absent", "m").why, HasSubstr("absent: No such file"));
  std::ofstream(path_ + "/file") << "x";
  EXPECT_THAT(MakeMark(path_ + "/file", "m").why, HasSubstr("file: not a folder"));
  EXPECT_FALSE(MakeMark("/proc", "m").marked);
}

TEST_F(SharedMark, DoesNotLeadOutOfTheFolder) {
  for (const char* mark : {"", "../x", "a/b", "A", "."}) {
    EXPECT_THROW(MakeMark(path_, mark), Error) << mark;
    EXPECT_THROW(RemoveMark(path_, mark), Error) << mark;
  }
  EXPECT_THROW(MakeMark("relative", "m"), Error);
}

}  // namespace
}  // namespace tfdist::agent
