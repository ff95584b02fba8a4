#include "cli/check/targets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tfdist::cli {
namespace {

using protocol::PortFact;
using protocol::Target;
using testing::ElementsAre;

TaskOnHost Task(const std::string& type, int index, int slot, int port) {
  TaskOnHost task;
  task.id = {type, index};
  task.slot = slot;
  task.port = port;
  return task;
}

PortFact Free(const std::string& task, int port) {
  return {.port = port, .task = task, .trouble = {}, .held = true};
}

// "slot:port"
std::vector<std::string> Shown(const std::vector<Target>& targets) {
  std::vector<std::string> shown;
  for (const Target& target : targets) {
    shown.push_back(target.address + " " + std::to_string(target.slot) + ":" +
                    std::to_string(target.port));
  }
  return shown;
}

class TargetsTest : public testing::Test {
 protected:
  TargetsTest() {
    plan_.hosts.resize(2);
    plan_.hosts[0].address = "a";
    plan_.hosts[1].address = "b";
    plan_.tasks = {Task("ps", 0, 0, 2223), Task("master", 0, 0, 2222), Task("ps", 1, 1, 2223)};
    first_ = {Free("ps:0", 2223), Free("master:0", 2222), Free("coordinator", 40000)};
    second_ = {Free("ps:1", 2223)};
  }
  [[nodiscard]] std::vector<std::string> Of(int slot) const {
    return Shown(TargetsOf(plan_, {&first_, &second_}, slot));
  }

  Plan plan_;
  std::vector<PortFact> first_;
  std::vector<PortFact> second_;
};

TEST_F(TargetsTest, EachHostDialsThePortsOfTheOthersAndTheCoordinators) {
  EXPECT_THAT(Of(1), ElementsAre("a 0:2223", "a 0:2222", "a 0:40000"));
}

TEST_F(TargetsTest, AHostWithTwoTasksDialsItsOwnPorts) {
  EXPECT_THAT(Of(0), ElementsAre("a 0:2223", "a 0:2222", "b 1:2223"));
}

TEST_F(TargetsTest, ATakenPortIsNotDialed) {
  first_[1].held = false;
  EXPECT_THAT(Of(1), ElementsAre("a 0:2223", "a 0:40000"));
}

TEST_F(TargetsTest, AHostWithoutAPortReachesTheCoordinatorAlone) {
  plan_.tasks[2] = Task("evaluator", 0, 1, 0);
  second_.clear();
  EXPECT_THAT(Of(1), ElementsAre("a 0:40000"));
}

TEST_F(TargetsTest, ASpareHostDialsAndIsDialedAsIfItHadEveryTask) {
  plan_.tasks.pop_back();
  plan_.hosts[1].spare = true;
  second_ = {Free("ps:0", 2223), Free("master:0", 2222)};
  EXPECT_THAT(Of(0), ElementsAre("a 0:2223", "a 0:2222", "b 1:2223", "b 1:2222"));
  EXPECT_THAT(Of(1), ElementsAre("a 0:2223", "a 0:2222", "a 0:40000", "b 1:2223", "b 1:2222"));
}

TEST_F(TargetsTest, AHostThatDidNotAnswerIsNotDialed) {
  EXPECT_THAT(Shown(TargetsOf(plan_, {&first_, nullptr}, 0)), ElementsAre("a 0:2223", "a 0:2222"));
}

}  // namespace
}  // namespace tfdist::cli
