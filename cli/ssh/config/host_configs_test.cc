// The configuration that hosts get together is the one that ssh -G gives each of them.
#include "cli/ssh/config/host_configs.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"

namespace tfdist::ssh {
namespace {

class HostConfigsTest : public testing::Test {
 protected:
  HostConfigsTest() {
    std::string pattern = testing::TempDir() + "host_configs_XXXXXX";
    folder_ = mkdtemp(pattern.data());
  }
  ~HostConfigsTest() override { std::filesystem::remove_all(folder_); }

  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
  }
  [[nodiscard]] Target To(const std::string& name) const {
    Target target;
    target.name = name;
    target.config = folder_ / "config";
    return target;
  }
  static TimePoint Soon() { return SystemClock().Now() + std::chrono::seconds(30); }

  // Each host's is what ssh says for it alone, whichever program connects.
  void Compare(const std::string& config, const std::vector<std::string>& names) const {
    Write("config", config);
    HostConfigs together;
    for (const std::string& name : names) {
      for (const Program program : {Program::kAuto, Program::kOpenssh}) {
        Target target = To(name);
        target.program = program;
        const HostConfig ours = together.Of(target, Soon());
        const HostConfig alone = ReadConfig(target, Soon());
        EXPECT_EQ(ours, alone) << name << " with\n" << config;
      }
    }
  }

  std::filesystem::path folder_;
};

TEST_F(HostConfigsTest, AreThoseOfEachHostAlone) {
  const std::vector<std::string> names = {"gpu1",     "gpu2",     "login", "GPU1", "u@gpu1",
                                          "10.0.0.1", "10.0.0.2", "127.1", "::1",  "a.example.org"};
  const std::string include = (folder_ / "more").string();
  Write("more", "Host gpu2\n  Port 2202\n  HostKeyAlias two\n");
  for (const std::string config :
       {"", "User u\nPort 2200\nIdentityFile ~/.ssh/%r-key\n",
        "Host gpu1\n  Port 1\nHost gpu*\n  Port 2\n",
        "Host gpu? !gpu2\n  User one\nHost *\n  User other\n",
        "Host gpu*\n  HostName %h.example.org\n", "Host gpu*\n  HostName 10.0.0.9\n",
        "Match host gpu1\n  Port 7\n", "Match exec \"test %h = gpu2\"\n  Port 8\n",
        "Match all\n  Port 9\n", "Host *.org\n  ProxyJump login\n",
        "Host gpu1\n  ProxyCommand nc %h %p\n",
        "Host gpu* 10.*\n  UserKnownHostsFile ~/.ssh/known-%h\n  IdentityFile ~/.ssh/key-%n\n",
        "Host GPU1\n  Port 4\n", "Host \"gpu1\"\n  Port 5\n", "ControlPath /run/%C\n",
        "ControlPath none\n", "ControlPath /run/one\nCertificateFile ~/.ssh/cert\n"}) {
    Compare(config, names);
  }
  for (const std::string config : {"", "Host gpu1\n  Port 1\n", "Match all\n  Port 9\n"}) {
    Compare("Include " + include + "\n" + config, names);
    Compare(config + "Include " + include + "\n", names);
  }
}

TEST_F(HostConfigsTest, AskOnceForHostsThatNothingTellsApart) {
  Write("config", "Port 2200\n");
  HostConfigs configs;
  EXPECT_EQ(configs.Of(To("gpu1"), Soon()).port, 2200);
  // Whoever is asked for now is not asked of ssh: it would say something else.
  Write("config", "Port 2201\n");
  const HostConfig second = configs.Of(To("gpu2"), Soon());
  EXPECT_EQ(second.port, 2200);
  EXPECT_EQ(second.host_name, "gpu2");
  Target other = To("gpu3");
  other.user = "somebody";
  EXPECT_EQ(configs.Of(other, Soon()).port, 2201);
}

TEST_F(HostConfigsTest, SayForEachHostWhatSshDoesNotAccept) {
  Write("config", "Nonsense yes\n");
  HostConfigs configs;
  for (const char* name : {"gpu1", "gpu2"}) {
    try {
      (void)configs.Of(To(name), Soon());
      FAIL() << name;
    } catch (const Error& error) {
      EXPECT_NE(error.cause().find("Bad configuration option: nonsense"), std::string::npos)
          << error.cause();
      EXPECT_EQ(error.cause().find("debug1"), std::string::npos) << error.cause();
    }
  }
}

}  // namespace
}  // namespace tfdist::ssh
