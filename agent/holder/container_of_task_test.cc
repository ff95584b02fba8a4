// Holders of tasks in containers. A shell script stands in for docker's client: the moments between a container's making and
// its start last as long as the test wants.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>

#include "agent/keeper/testing/slot_fixture.h"
#include "base/file.h"

namespace tfdist::agent {
namespace {

class ContainerOfTaskTest : public SlotTest {
 protected:
  void SetUp() override {
    SlotTest::SetUp();
    const UniqueFd fd = OpenFile(folder_ / "docker", O_WRONLY | O_CREAT, 0700);
    WriteAll(fd.get(), Client(), "docker");
    std::filesystem::create_symlink("/usr/bin/env", folder_ / "env");  // a client is started by it
    setenv("PATH", folder_.c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
    StartKeeper();
  }
  void TearDown() override {
    SlotTest::TearDown();
    setenv("PATH", path_.c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
  }

  // `run` loses signals until the container starts, when the file `start` is there; then it becomes its program.
  [[nodiscard]] std::string Client() const {
    return "#!/bin/sh\ncd " + folder_.string() +
           "\ncase $1 in\n"
           "run) trap : TERM; echo made; until [ -e start ]; do /bin/sleep 0.05; done\n"
           "  echo $$ >first; exec sh -c \"$2\" ;;\n"
           "kill) [ ! -e hang ] || { /bin/rm hang; exec /bin/sleep 1000; }\n"
           "  [ -e ready ] && kill -\"$3\" \"$(/bin/cat first)\" ;;\n"
           "esac\n";
  }
  void StartContainer(const std::string& program,
                      const std::function<void(RunSpec&)>& change = {}) {
    StartRun("a:0", {folder_ / "docker", "run", program}, 1, [&](RunSpec& spec) {
      spec.container = "tfdist-j-h0-a-0";
      spec.engine = "docker";
      spec.grace_ms = 600'000;
      if (change) change(spec);
    });
  }

  std::string path_ = std::getenv("PATH");
};

constexpr const char* kTold =
    "trap 'echo told; exit 3' TERM; echo on; : >ready; while :; do /bin/sleep 0.05; done";

TEST_F(ContainerOfTaskTest, AHolderThatCanStartNoProgramTriesAgain) {
  StartContainer(kTold);
  OpenFile(folder_ / "start", O_WRONLY | O_CREAT, 0600);
  WaitForLog("a:0", "on\n");
  std::filesystem::remove(folder_ / "env");
  Order("stop a-0 run-1-1");
  const auto says_so = [&] {
    const auto log = ReadFileIfExists(folder_ / "agent.log", 1 << 20).value_or("");
    return log.find("trying again") != std::string::npos;
  };
  WaitFor(says_so, kLong, "the holder to say that it tries again");
  std::filesystem::create_symlink("/usr/bin/env", folder_ / "env");
  EXPECT_EQ(WaitForDone("a:0").code, 3);
}

TEST_F(ContainerOfTaskTest, ACallThatHangsIsMadeAgain) {
  StartContainer(kTold);
  OpenFile(folder_ / "start", O_WRONLY | O_CREAT, 0600);
  WaitForLog("a:0", "on\n");
  OpenFile(folder_ / "hang", O_WRONLY | O_CREAT, 0600);
  Order("stop a-0 run-1-1");
  EXPECT_EQ(WaitForDone("a:0").code, 3);
}

TEST_F(ContainerOfTaskTest, AStopBetweenMakingAndStartComesToTheProgram) {
  StartContainer(kTold);
  WaitForLog("a:0", "made\n");
  Order("stop a-0 run-1-1");
  WaitUntilOrdered("stop a-0 run-1-1");
  OpenFile(folder_ / "start", O_WRONLY | O_CREAT, 0600);
  EXPECT_EQ(WaitForDone("a:0").code, 3);
  const std::string log = LogText("a:0");
  EXPECT_NE(log.find("told\n"), std::string::npos);
  EXPECT_EQ(log.find("told\n"), log.rfind("told\n"));
}

}  // namespace
}  // namespace tfdist::agent
