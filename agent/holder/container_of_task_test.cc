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
    setenv("PATH", (folder_.string() + ":" + path_).c_str(), 1);
    StartKeeper();
  }
  void TearDown() override {
    SlotTest::TearDown();
    setenv("PATH", path_.c_str(), 1);
  }

  // `run` loses signals until the container starts, when the file `start` is there; then it becomes its program.
  [[nodiscard]] std::string Client() const {
    return "#!/bin/sh\ncd " + folder_.string() +
           "\ncase $1 in\n"
           "run) trap : TERM; echo made; until [ -e start ]; do sleep 0.05; done\n"
           "  echo $$ >first; exec sh -c \"$2\" ;;\n"
           "kill) [ -e ready ] && kill -\"$3\" \"$(cat first)\" ;;\n"
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

TEST_F(ContainerOfTaskTest, AStopBetweenMakingAndStartComesToTheProgram) {
  StartContainer("trap 'echo told; exit 3' TERM; : >ready; while :; do sleep 0.05; done");
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
