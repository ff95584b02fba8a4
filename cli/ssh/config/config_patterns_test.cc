#include "cli/ssh/config/config_patterns.h"

#include <gtest/gtest.h>

namespace tfdist::ssh {
namespace {

bool AreTheSame(const std::string& text, const std::string& one, const std::string& other) {
  const auto patterns = ConfigPatterns::Parse({text});
  if (!patterns) return false;
  return patterns->SignatureOf(one) == patterns->SignatureOf(other);
}

TEST(ConfigPatterns, TellHostsApartByThePatternsThatTheyMatch) {
  EXPECT_TRUE(AreTheSame("", "gpu1", "gpu2"));
  EXPECT_TRUE(AreTheSame("User u\nHost *\n  Port 2200\n", "gpu1", "gpu2"));
  EXPECT_TRUE(AreTheSame("Host gpu* !gpu9\n User u\n", "gpu1", "gpu2"));
  EXPECT_FALSE(AreTheSame("Host gpu* !gpu9\n User u\n", "gpu1", "gpu9"));
  EXPECT_FALSE(AreTheSame("Host gpu1\n", "gpu1", "gpu2"));
  EXPECT_FALSE(AreTheSame("Host=gpu1\n", "gpu1", "gpu2"));
  EXPECT_FALSE(AreTheSame("  hOST\t= \"gpu1\"\r\n", "gpu1", "gpu2"));
  EXPECT_FALSE(AreTheSame("Host GPU1\n", "gpu1", "gpu2"));
  EXPECT_FALSE(AreTheSame("Host other gpu?\n", "gpu1", "gpu22"));
  EXPECT_TRUE(AreTheSame("# Host gpu1\n", "gpu1", "gpu2"));
}

TEST(ConfigPatterns, AreNotKnownWhereHostsMayDifferByMore) {
  for (const char* text :
       {"Match host gpu1\n", "Match all host x\n", "match exec \"test %h = gpu1\"\n",
        "CanonicalizeHostname yes\n", "Include ~/.ssh/%h\n", "Host gpu\\1\n", "\"Host\" gpu1\n",
        "UserKnownHostsFile ~/.ssh/known-%C\n", "Host* gpu1\n"}) {
    EXPECT_FALSE(ConfigPatterns::Parse({"User u\n", text})) << text;
  }
  EXPECT_FALSE(ConfigPatterns::Parse({std::string("User u\n\0Host gpu1\n", 18)}));
  for (const char* text : {"Match all\n", "CanonicalizeHostname no\n", "Include config.d/*\n",
                           "ControlPath ~/.ssh/cm-%C\n", "HostName %h\n"}) {
    EXPECT_TRUE(ConfigPatterns::Parse({text})) << text;
  }
}

TEST(FilesRead, AreWhatSshSays) {
  EXPECT_EQ(FilesRead("OpenSSH_9.2p1\ndebug1: Reading configuration data /a b/config\r\n"
                      "debug1: /a b/config line 1: Applying options for *\n"
                      "debug1: Reading configuration data /etc/ssh/ssh_config\n"),
            (std::vector<std::string>{"/a b/config", "/etc/ssh/ssh_config"}));
}

TEST(IsPlainHostName, IsTrueOfWhatSshTakesAsItIs) {
  for (const char* name : {"gpu1", "gpu1.example.org", "10.0.0.1", "::1", "fe80::1", "a_b-c"}) {
    EXPECT_TRUE(IsPlainHostName(name)) << name;
  }
  for (const char* name : {"", "GPU1", "u@gpu1", "ssh://gpu1", "10.1", "0:0::1", "127.000.0.1",
                           "gpu1:22", "[::1]", "fe80::1%lo", "gpu 1", "0x7f.1"}) {
    EXPECT_FALSE(IsPlainHostName(name)) << name;
  }
}

TEST(MatchesPattern, KnowsStarsAndQuestionMarks) {
  EXPECT_TRUE(MatchesPattern("gpu17", "g*7"));
  EXPECT_TRUE(MatchesPattern("gpu17", "*1?"));
  EXPECT_TRUE(MatchesPattern("gpu17", "**gpu17**"));
  EXPECT_TRUE(MatchesPattern("", "*"));
  EXPECT_FALSE(MatchesPattern("", "?"));
  EXPECT_FALSE(MatchesPattern("gpu17", "gpu1"));
  EXPECT_FALSE(MatchesPattern("gpu1", "gpu17"));
  EXPECT_FALSE(MatchesPattern("gpu17", "*8*"));
}

}  // namespace
}  // namespace tfdist::ssh
