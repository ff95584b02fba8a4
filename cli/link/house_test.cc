// This machine's own shell, and a shell script as the agent, which says hello and gives one answer.
#include "cli/link/house.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/testing/gzip.h"
#include "base/testing/temporary_folder.h"
#include "cli/channel/local_transport.h"
#include "cli/link/testing/greeting_agent.h"
#include "wire/frame.h"

namespace tfdist::cli {
namespace {

namespace fs = std::filesystem;
using protocol::Json;

// Notes where it runs, and answers what it is asked.
std::string AnsweringAgent(const Json& answer) {
  const std::string reply = protocol::Frame({std::string(protocol::type::kOk), 1, answer});
  return GreetingAgent(
      fmt::format("echo \"$0 $1\" >>~/started\nhead -c 9 >/dev/null\nprintf '{}'", Octal(reply)));
}

class HouseTest : public testing::Test {
 protected:
  HouseTest() {
    setenv("HOME", home_.c_str(), 1);  // NOLINT(concurrency-mt-unsafe): one thread
    unsetenv("XDG_CACHE_HOME");        // NOLINT(concurrency-mt-unsafe)
    unsetenv("XDG_RUNTIME_DIR");       // NOLINT(concurrency-mt-unsafe)
  }

  // What `ask` gets for a House whose agent answers so.
  template <typename Ask>
  auto With(const Json& answer, const std::string& remote_dir, Ask ask) {
    return WithProgram(AnsweringAgent(answer), remote_dir, ask);
  }
  template <typename Ask>
  auto WithProgram(const std::string& program, const std::string& remote_dir, Ask ask) {
    const std::string gzip = Gzip(program);
    const std::string sha256 = Sha256Hex(program);
    const EmbeddedAgent agent{.gzip = std::as_bytes(std::span(gzip)),
                              .xz = {},
                              .sha256_hex = sha256,
                              .size_bytes = program.size(),
                              .machine = "x86_64"};
    LocalTransport transport("localhost");
    return ask(House{transport, {&agent, 1}, remote_dir, std::chrono::seconds(60)});
  }
  bool Sees(const std::string& base) {
    return With(protocol::SlotList{}, "",
                [&](const House& house) { return IsInSight(Survey(house).folders, {base}); });
  }
  // "PATH ROLE" of each agent that has run.
  [[nodiscard]] std::string Started() const {
    return ReadFileIfExists(home_ / "started", 1 << 20).value_or("");
  }

  const TemporaryFolder temporary_;
  const fs::path home_ = fs::canonical(temporary_.path());
};

TEST_F(HouseTest, FindsTheNewestJobOfAName) {
  fs::create_directories(home_ / ".cache/tfdist/jobs");
  protocol::SlotList list;
  for (const auto& [job, slot] : {std::pair("digits-20260801T120000Z-a1b2c3", 0),
                                  {"digits-20260802T120000Z-000000", 1},
                                  {"digits-big-20260803T120000Z-a1b2c3", 0},
                                  {"digits-20260804T120000Z-a1b2c3", -1},
                                  {"../digits-20260805T120000Z-a1b2c3", 0}}) {
    list.slots.push_back({.base = 0, .job = job, .slot = slot});
  }
  list.slots.push_back({.base = 1, .job = "digits-20260806T120000Z-a1b2c3"});
  const auto find = [&](const std::string& name) {
    return With(list, "", [&](const House& house) { return FindJobs(house, name); });
  };
  const auto jobs = find("digits");
  ASSERT_EQ(jobs.size(), 2U);
  EXPECT_EQ(jobs[0].job, "digits-20260802T120000Z-000000");
  EXPECT_EQ(jobs[0].slot, 1);
  EXPECT_FALSE(jobs[0].running);
  EXPECT_EQ(jobs[0].base, (home_ / ".cache/tfdist").string());
  EXPECT_EQ(find("").size(), 3U);
  EXPECT_TRUE(Started().ends_with(" house\n")) << Started();
}

TEST_F(HouseTest, BringsNoAgentWhereTfdistHasNoFolder) {
  const Json nothing = protocol::Removal{};
  const auto clean = [](const House& house) { return Clean(house, {}, false); };
  const auto purge = [](const House& house) { return PurgeJob(house, "a-1", 0, true); };
  EXPECT_FALSE(Sees((home_ / ".cache/tfdist").string()));
  (void)With(nothing, "", clean);
  fs::create_directories(home_ / ".cache/tfdist/jobs/a-1/h1");
  (void)With(nothing, "", purge);
  EXPECT_EQ(Started(), "");
  EXPECT_FALSE(fs::exists(home_ / ".cache/tfdist/bin"));
  (void)With(nothing, "", clean);
  EXPECT_NE(Started(), "");
}

// As where another `clean` removes it before the agent runs.
TEST_F(HouseTest, AFolderThatGoesMeanwhileIsNone) {
  fs::create_directories(home_ / ".cache/tfdist/jobs");
  WithProgram("#!/bin/sh\nrm -rf ~/.cache/tfdist\nexit 1\n", "", [](const House& house) {
    EXPECT_TRUE(Survey(house).slots.empty());
    return 0;
  });
  EXPECT_FALSE(fs::exists(home_ / ".cache/tfdist"));
}

// A folder that is known is itself one of tfdist's; one that a user names holds it.
TEST_F(HouseTest, PurgesInTheFolderThatHasTheSlot) {
  const std::string base = (home_ / ".cache/tfdist").string();
  fs::create_directories(fs::path(base) / "jobs/a-1/h0");
  const Json answer = protocol::Removal{.removed = {"it"}, .kept = {}, .in_use = {}};
  const auto purge = [](const House& house) { return PurgeJob(house, "a-1", 0, true).removed; };
  for (const std::string& remote_dir : {base, (home_ / ".cache").string(), std::string()}) {
    EXPECT_EQ(With(answer, remote_dir, purge), std::vector<std::string>{"it"}) << remote_dir;
  }
  fs::remove_all(fs::path(base) / "jobs");
  EXPECT_EQ(With(answer, base, purge), std::vector<std::string>{});
  fs::create_directories(fs::path(base) / "keep/a-1");  // what jobs of that name keep
  EXPECT_EQ(With(answer, base, purge), std::vector<std::string>{"it"});
  EXPECT_FALSE(fs::exists(home_ / ".cache/bin"));
  EXPECT_EQ(Started().find(home_ / ".cache/tfdist/bin"), 0U) << Started();
}

TEST_F(HouseTest, SurveyNamesTheFoldersThatItHasSeenAsAWhole) {
  const std::string base = (home_ / ".cache/tfdist").string();
  EXPECT_FALSE(Sees(base));
  fs::create_directories(fs::path(base) / "jobs/a-20260801T120000Z-a1b2c3/h0");
  EXPECT_TRUE(Sees(base));
  fs::remove_all(base);  // an empty folder may be the place of a file system that is not mounted
  EXPECT_FALSE(Sees(base));
  std::ofstream(home_ / ".cache/other") << "mine";
  EXPECT_TRUE(Sees(base));
}

// What `clean` is for: nothing fits there any more.
class UnfitFolder : public HouseTest {
 protected:
  void TearDown() override { umount2(folder_.c_str(), MNT_DETACH); }
  // False without the right to mount.
  [[nodiscard]] bool Mount(unsigned long flags, const char* options) const {
    fs::create_directories(folder_);
    return mount("tmpfs", folder_.c_str(), "tmpfs", flags, options) == 0;
  }
  void ExpectServedAside() {
    fs::create_directories(folder_ / "tfdist/jobs");
    const Json answer = protocol::Removal{.removed = {"it"}, .kept = {}, .in_use = {}};
    const auto clean = [](const House& house) { return Clean(house, {}, false); };
    EXPECT_EQ(With(answer, folder_.string(), clean).removed, std::vector<std::string>{"it"});
    const std::string started = Started();
    EXPECT_TRUE(started.starts_with("/dev/shm/tfdist-") || started.starts_with("/tmp/tfdist-"))
        << started;
    // The role removes itself; this one does not.
    fs::remove_all(fs::path(started.substr(0, started.find(' '))).parent_path().parent_path());
  }

  const fs::path folder_ = home_ / "folder";
};

TEST_F(UnfitFolder, ThatIsFullIsServedByAnAgentElsewhere) {
  if (!Mount(0, "size=16k")) GTEST_SKIP() << "needs root to mount a small disk";
  fs::create_directories(folder_ / "tfdist/jobs");
  std::ofstream rest(folder_ / "rest");
  while (rest << std::string(1024, 'x') << std::flush) {
  }
  ExpectServedAside();
}

TEST_F(UnfitFolder, ThatRunsNoProgramsIsServedByAnAgentElsewhere) {
  if (!Mount(MS_NOEXEC, "size=1m")) GTEST_SKIP() << "needs root to mount";
  ExpectServedAside();
}

}  // namespace
}  // namespace tfdist::cli
