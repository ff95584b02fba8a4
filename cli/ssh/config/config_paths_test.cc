#include "cli/ssh/config/config_paths.h"

#include <gtest/gtest.h>

#include "base/testing/temporary_folder.h"

namespace tfdist::ssh {
namespace {

using Files = std::vector<std::string>;

TEST(PlainPath, IsFromTheRootOrThisAccountsHome) {
  EXPECT_EQ(PlainPath("/keys/my id"), "/keys/my id");
  EXPECT_EQ(PlainPath("~/id"), HomeFolder() + "/id");
  for (const char* path :
       {"/keys/%h", "/keys/100%%", "${KEYS}/id", "$KEYS", "~root/id", "~", "id", ""}) {
    EXPECT_FALSE(PlainPath(path)) << path;
  }
}

class KnownHostsFilesTest : public testing::Test {
 protected:
  std::string path(const std::string& name) { return (folder_.path() / name).string(); }
  TemporaryFolder folder_;
};

TEST_F(KnownHostsFilesTest, ABlankEndsAPath) {
  EXPECT_EQ(KnownHostsFiles("/k/one /k/two"), (Files{"/k/one", "/k/two"}));
  EXPECT_EQ(KnownHostsFiles(""), Files{});
  // As ssh -G of OpenSSH 8.3 and older prints them.
  EXPECT_EQ(KnownHostsFiles("~/.ssh/known_hosts ~/.ssh/known_hosts2"),
            (Files{HomeFolder() + "/.ssh/known_hosts", HomeFolder() + "/.ssh/known_hosts2"}));
}

TEST_F(KnownHostsFilesTest, ABlankThatMayBePartOfAPathIsForSsh) {
  for (const char* value : {"/k/one two", "no-such-relative-file", "/k/one ", " /k/one",
                            "/k/one  /k/two", "/k/my hosts /k/two"}) {
    EXPECT_FALSE(KnownHostsFiles(value)) << value;
  }
  std::filesystem::create_directories(folder_.path() / "a ");
  EXPECT_TRUE(KnownHostsFiles(path("a /b")));
  folder_.Write("a /b", "");
  EXPECT_FALSE(KnownHostsFiles(path("a /b")));
  std::filesystem::create_directories(folder_.path() / "c /d ");
  folder_.Write("c /d /e", "");
  EXPECT_FALSE(KnownHostsFiles(path("c /d /e")));
}

}  // namespace
}  // namespace tfdist::ssh
