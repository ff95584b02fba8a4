#include "cli/pull/brought.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "base/testing/temporary_folder.h"

namespace tfdist::cli {
namespace {

namespace fs = std::filesystem;

class BroughtTest : public testing::Test {
 protected:
  void SetUp() override {
    setenv("XDG_STATE_HOME", state_.path().c_str(), 1);  // NOLINT: one thread
    Write("1");
  }
  void Write(const std::string& text) const { std::ofstream(folder_.path() / "file") << text; }

  TemporaryFolder state_;
  TemporaryFolder folder_;
};

TEST_F(BroughtTest, WhatTheSameJobHasBroughtMayBeReplacedUntilItIsChanged) {
  EXPECT_FALSE(Brought(folder_.path(), "job").MayReplace("file"));
  EXPECT_TRUE(Brought(folder_.path(), "job").MayReplace("none"));
  Brought(folder_.path(), "job").Note("file");
  EXPECT_TRUE(Brought(folder_.path(), "job").MayReplace("file"));
  EXPECT_FALSE(Brought(folder_.path(), "other").MayReplace("file"));
  Write("12");
  EXPECT_FALSE(Brought(folder_.path(), "job").MayReplace("file"));
}

TEST_F(BroughtTest, NothingComesBelowWhatIsNoFolder) {
  std::filesystem::create_directories(folder_.path() / "real");
  std::filesystem::create_symlink("real", folder_.path() / "link");
  const Brought brought(folder_.path(), "job");
  EXPECT_TRUE(brought.MayReplace("real/new/one"));
  EXPECT_FALSE(brought.MayReplace("file/one"));
  EXPECT_FALSE(brought.MayReplace("link/one"));
  EXPECT_EQ(InTheWay(folder_.path(), "link/deep/one"), "link");
  EXPECT_EQ(InTheWay(folder_.path(), "real/one"), std::nullopt);
}

TEST_F(BroughtTest, IsOutdatedOnceTheHostsFileHasChangedInAnyWay) {
  EXPECT_FALSE(Brought(folder_.path(), "job").IsOutdated("file", 5));  // nothing is known of it
  Brought(folder_.path(), "job").Note("file", 5);
  EXPECT_FALSE(Brought(folder_.path(), "job").IsOutdated("file", 5));
  EXPECT_TRUE(Brought(folder_.path(), "job").IsOutdated("file", 6));
  EXPECT_TRUE(Brought(folder_.path(), "job").MayReplace("file"));
  EXPECT_FALSE(
      Brought(folder_.path(), "job").IsOutdated("file", 0));  // an older agent does not tell
  Brought(folder_.path(), "job").Note("file");
  EXPECT_FALSE(Brought(folder_.path(), "job").IsOutdated("file", 6));
}

TEST_F(BroughtTest, TheMemoryDoesNotGrowWithEachPull) {
  for (int round = 0; round < 100; ++round) {
    Write(std::string(static_cast<size_t>(round), 'x'));
    Brought(folder_.path(), "job").Note("file");
  }
  for (const auto& entry : fs::directory_iterator(state_.path() / "tfdist/brought")) {
    EXPECT_LT(fs::file_size(entry.path()), 200u);
  }
}

}  // namespace
}  // namespace tfdist::cli
