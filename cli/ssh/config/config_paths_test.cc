#include "cli/ssh/config/config_paths.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "base/error.h"
#include "base/testing/temporary_folder.h"
#include "cli/ssh/config/openssh_config.h"

namespace tfdist::ssh {
namespace {

ConfigPaths PathsOf(const std::string& alias) {
  HostConfig host;
  host.host_name = "10.0.0.9";
  host.user = "ubuntu";
  host.port = 2200;
  host.host_key_alias = alias;
  Target target;
  target.name = "gpu9";
  return {host, target};
}

TEST(ConfigPaths, HaveSshsTokensVariablesAndHomes) {
  setenv("TFDIST_TEST_KEYS", "/k", 1);  // NOLINT(concurrency-mt-unsafe): one thread
  const ConfigPaths paths = PathsOf("");
  EXPECT_EQ(paths.Expand("/keys/%r-%h-%p%%"), "/keys/ubuntu-10.0.0.9-2200%");
  EXPECT_EQ(paths.Expand("/keys/%n/%k/%i"), "/keys/gpu9/gpu9/" + std::to_string(getuid()));
  EXPECT_EQ(PathsOf("alias").Expand("/%k"), "/alias");
  EXPECT_EQ(paths.Expand("${TFDIST_TEST_KEYS}/id"), "/k/id");
  EXPECT_EQ(paths.Expand("~/id"), HomeFolder() + "/id");
  EXPECT_EQ(paths.Expand("~root/id"), "/root/id");
  EXPECT_EQ(paths.Expand("%d/%u").find(HomeFolder() + "/"), 0U);
}

TEST(ConfigPaths, RefuseWhatOnlySshKnows) {
  for (const char* path :
       {"/keys/%C", "/keys/%", "~no-such-account/id", "${TFDIST_TEST_UNSET}/id", "${"}) {
    EXPECT_THROW((void)PathsOf("").Expand(path), Error) << path;
  }
}

class KnownHostsFilesTest : public testing::Test {
 protected:
  std::vector<std::string> Read(const std::string& value) {
    return KnownHostsFiles("UserKnownHostsFile", value);
  }
  std::string path(const std::string& name) { return (folder_.path() / name).string(); }
  TemporaryFolder folder_;
};

TEST_F(KnownHostsFilesTest, ABlankBelongsToAPathThatIsThere) {
  folder_.Write("my hosts", "");
  EXPECT_EQ(Read(path("my hosts")), (std::vector<std::string>{path("my hosts")}));
  EXPECT_EQ(Read(path("my hosts") + " /k/two"),
            (std::vector<std::string>{path("my hosts"), "/k/two"}));
  EXPECT_EQ(Read("/k/one /k/two"), (std::vector<std::string>{"/k/one", "/k/two"}));
  EXPECT_TRUE(Read("").empty());
}

TEST_F(KnownHostsFilesTest, ABlankThatMayBeEitherIsRefused) {
  EXPECT_THROW((void)Read(path("no such hosts")), Error);
  EXPECT_THROW((void)Read("/k/one two"), Error);
  EXPECT_THROW((void)Read("no-such-relative-file"), Error);
  EXPECT_THROW((void)Read("/k/one "), Error);
  EXPECT_THROW((void)Read("/k/one  /k/two"), Error);
  std::filesystem::create_directories(folder_.path() / "a ");
  folder_.Write("a /b", "");
  EXPECT_THROW((void)Read(path("a /b")), Error);
  std::filesystem::create_directories(folder_.path() / "c /d ");
  folder_.Write("c /d /e", "");
  EXPECT_THROW((void)Read(path("c /d /e")), Error);
}

// As ssh -G of OpenSSH 8.3 and older prints them.
TEST_F(KnownHostsFilesTest, ATildeIsTheHomeFolder) {
  EXPECT_EQ(Read("~/.ssh/known_hosts ~/.ssh/known_hosts2"),
            (std::vector<std::string>{HomeFolder() + "/.ssh/known_hosts",
                                      HomeFolder() + "/.ssh/known_hosts2"}));
}

}  // namespace
}  // namespace tfdist::ssh
