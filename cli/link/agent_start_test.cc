// This machine's own shell, and a shell script as the agent, which hashes itself before it says hello.
#include "cli/link/agent_start.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/hash.h"
#include "base/testing/gzip.h"
#include "base/testing/soon.h"
#include "base/testing/temporary_folder.h"
#include "cli/channel/local_transport.h"
#include "cli/link/testing/greeting_agent.h"

namespace tfdist::cli {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;

class AgentStartTest : public testing::Test {
 protected:
  AgentStartTest() {
    setenv("HOME", home_.path().c_str(), 1);  // NOLINT(concurrency-mt-unsafe): one thread
    unsetenv("XDG_CACHE_HOME");               // NOLINT(concurrency-mt-unsafe)
  }

  StartedAgent Bring() {
    LocalTransport transport("localhost");
    const EmbeddedAgent agent{.gzip = std::as_bytes(std::span(gzip_)),
                              .xz = {},
                              .sha256_hex = sha256_,
                              .size_bytes = program_.size(),
                              .machine = "x86_64"};
    return BringAgent(transport, {&agent, 1}, "",
                      {.shell = seconds(30), .boot = seconds(30), .hello = hello_limit_},
                      [this](const char* step) { steps_ += fmt::format("{}, ", step); });
  }
  [[nodiscard]] fs::path File() const { return home_.path() / ".cache/tfdist/bin" / sha256_; }
  void Damage(const std::string& content) const {
    chmod(File().c_str(), 0700);
    std::ofstream(File(), std::ios::binary) << content;
  }

  const TemporaryFolder home_;
  std::string program_ = GreetingAgent("exec cat");
  std::string gzip_ = Gzip(program_);
  std::string sha256_ = Sha256Hex(program_);
  std::string steps_;
  seconds hello_limit_{30};
};

TEST_F(AgentStartTest, TakesAnAgentThatIsThere) {
  EXPECT_TRUE(Bring().uploaded);
  const StartedAgent again = Bring();
  EXPECT_FALSE(again.uploaded);
  EXPECT_EQ(again.hello.base, "/base");
  EXPECT_EQ(again.machine, "x86_64");
  EXPECT_EQ(
      steps_,
      "connect, find or send the agent, the agent's first word, connect, find or send the agent, "
      "the agent's first word, ");
}

TEST_F(AgentStartTest, ReplacesOneWhoseContentIsNotWhatItsNameSays) {
  (void)Bring();
  Damage(program_ + "# damaged\n");
  const StartedAgent again = Bring();
  EXPECT_TRUE(again.uploaded);
  EXPECT_EQ(again.hello.agent_sha256, sha256_);
  EXPECT_FALSE(Bring().uploaded);
}

TEST_F(AgentStartTest, ReplacesOneThatDoesNotRun) {
  for (const char* content :
       {"", "\177ELF and no more", "#!/bin/sh\nexit 3\n", "#!/bin/sh\nkill -SEGV $$\n",
        "#!/bin/sh\necho this is no frame, and long enough to be one\n"}) {
    (void)Bring();
    Damage(content);
    EXPECT_TRUE(Bring().uploaded) << content;
    EXPECT_FALSE(Bring().uploaded) << content;
  }
}

TEST_F(AgentStartTest, SendsAgainWhatACheckHasRemovedBeforeItRan) {
  const std::string once = (home_.path() / "removed once").string();
  program_ = fmt::format("#!/bin/sh\n[ -e '{0}' ] || {{ : >'{0}'; rm \"$0\"; exit 1; }}\n{1}", once,
                         GreetingAgent("exec cat"));
  gzip_ = Gzip(program_);
  sha256_ = Sha256Hex(program_);
  EXPECT_TRUE(Bring().uploaded);
  EXPECT_FALSE(Bring().uploaded);
}

// One that is there, or was just sent; neither is sent again.
TEST_F(AgentStartTest, NamesTheProcessThatSaysNothing) {
  (void)Bring();
  hello_limit_ = seconds(1);
  for (const bool is_sent : {false, true}) {
    const fs::path pid = home_.path() / "pid";
    program_ = fmt::format("#!/bin/sh\necho $$ >'{}'\nexec cat\n", pid.string());
    if (is_sent) {
      gzip_ = Gzip(program_);
      sha256_ = Sha256Hex(program_);
    } else {
      Damage(program_);
    }
    steps_.clear();
    try {
      (void)Bring();
      FAIL();
    } catch (const Error& error) {
      std::string number;
      std::ifstream(pid) >> number;
      EXPECT_EQ(
          error.cause(),
          fmt::format("the agent was started as process {}, and has said nothing for 1 s", number));
      EXPECT_NE(error.remedy().find("kill -CONT " + number), std::string::npos);
      EXPECT_EQ(steps_, "connect, find or send the agent, the agent's first word, ");
    }
  }
}

TEST_F(AgentStartTest, GivesUpWhenANewOneIsDamagedAsWell) {
  sha256_ = Sha256Hex("something else");
  try {
    (void)Bring();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.phase(), Phase::kStart);
    EXPECT_EQ(error.cause(), "the agent there is damaged: its content does not match its name");
    EXPECT_EQ(error.remedy(), "remove /base/bin/" + sha256_ + " on that host");
  }
}

}  // namespace
}  // namespace tfdist::cli
