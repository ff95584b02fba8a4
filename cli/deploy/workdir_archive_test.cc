#include "cli/deploy/workdir_archive.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/failures.h"
#include "base/testing/temporary_folder.h"

namespace tfdist::cli {
namespace {

class WorkdirTest : public testing::Test {
 protected:
  void Write(const std::string& name, size_t bytes) {
    std::filesystem::create_directories((folder() / name).parent_path());
    std::ofstream(folder() / name) << std::string(bytes, 'x');
  }
  [[nodiscard]] const std::filesystem::path& folder() const { return temporary_.path(); }
  // Of a folder that is too large.
  [[nodiscard]] UsageError Refusal(const WorkdirLimits& limits) const {
    try {
      (void)MeasureWorkdir(folder(), limits);
    } catch (const UsageError& error) {
      return error;
    }
    ADD_FAILURE() << "was not refused";
    return {Phase::kInternal, ""};
  }

 private:
  const TemporaryFolder temporary_;
};

TEST_F(WorkdirTest, CountsWhatIsSentAndNotVersionControl) {
  Write("train.py", 10);
  Write("data/numbers", 3 << 20);
  Write("data/.git/objects/pack", 5 << 20);
  const WorkdirSize size = MeasureWorkdir(folder());
  EXPECT_EQ(size.entries, 3U);
  EXPECT_EQ(size.bytes, 10U + (3 << 20));
  EXPECT_EQ(size.largest, "data (3 MiB), train.py (0 MiB)");
}

TEST_F(WorkdirTest, RefusesAFolderWithTooManyFilesByNameAndWithARemedy) {
  for (int file = 0; file < 20; ++file) Write("many/" + std::to_string(file), 0);
  const UsageError error = Refusal({.entries = 10});
  EXPECT_EQ(error.cause(), "workdir " + folder().string() +
                               " has more than 10 files and folders; its largest entries: many (0 "
                               "MiB)");
  EXPECT_NE(error.remedy().find("--workdir FOLDER"), std::string::npos);
}

TEST_F(WorkdirTest, RefusesAFolderThatIsTooLargeByName) {
  Write("data", 2 << 20);
  const std::string cause = Refusal({.bytes = 1 << 20}).cause();
  EXPECT_EQ(cause, "workdir " + folder().string() +
                       " has more than 1 MiB; its largest entries: data (2 MiB)");
}

TEST_F(WorkdirTest, AFolderThatCannotBeReadDoesNotStopTheCount) {
  Write("closed/file", 10);
  Write("open", 10);
  std::filesystem::permissions(folder() / "closed", std::filesystem::perms::none);
  EXPECT_GE(MeasureWorkdir(folder()).entries, 2U);
  std::filesystem::permissions(folder() / "closed", std::filesystem::perms::owner_all);
}

}  // namespace
}  // namespace tfdist::cli
