// Whole jobs in which one of our processes dies, or goes silent.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <sstream>

#include "agent/job_state.h"
#include "agent/testing/job_fixture.h"

namespace tfdist::agent {
namespace {

using protocol::Event;
using protocol::Json;
using testing::ElementsAre;
using testing::HasSubstr;

namespace event = protocol::event;
namespace type = protocol::type;

// Writes a numbered line every 20 ms until the file `enough` is there; then some more.
const std::string kCount =
    "i=0; until [ -e enough ]; do echo $i; i=$((i+1)); sleep 0.02; done; echo done";
const std::string kForever = "exec sleep infinity";

class FaultsTest : public JobTest {
 protected:
  void Touch(int slot, const std::string& name) {
    std::filesystem::create_directory(SlotFolder(slot) / "work" / name);
  }
  static protocol::JobState StateOf(const std::vector<Event>& events) {
    protocol::JobState state;
    for (const Event& one : events) state.Apply(one);
    return state;
  }
  // Whether `log` is 0, 1, 2, ..., done: no line lost, none twice.
  static void ExpectCounted(const std::string& log) {
    std::istringstream lines(log);
    std::string line;
    int number = 0;
    while (std::getline(lines, line) && line != "done") ASSERT_EQ(line, std::to_string(number++));
    EXPECT_EQ(line, "done");
    EXPECT_GT(number, 0);
  }
  // The pid that the first `started` event of the task names.
  static int PidOf(const std::vector<Event>& events, const std::string& task) {
    for (const Event& one : events) {
      if (one.kind == event::kTask && one.fields.at("task") == task &&
          one.fields.at("state") == "started") {
        return one.fields.at("pid").get<int>();
      }
    }
    return 0;
  }
  // Kills the agent of `slot` in mid-job; the job must not notice.
  void KillAgentInMidJob(int slot) {
    auto clients = Deploy(2, {{"worker:0", 0, kCount}, {"worker:1", 1, kCount}});
    WaitForLog(clients[0], "worker:1", "0\n1\n2\n");
    kill(FindRole(slot, "tfdist-agent"), SIGKILL);

    AgentClient client = Attach(0);
    client.WaitForHello("agent");
    const uint64_t events = client.Send(type::kEvents, kFromTheFirst);
    const auto seen =
        client.WaitForEvent(events, event::kHost, {{"slot", slot}, {"state", "agent-restarted"}});
    const std::string task = slot == 0 ? "worker:0" : "worker:1";
    const int pid = PidOf(seen, task);
    EXPECT_EQ(::kill(pid, 0), 0) << "the task has died";
    const std::vector<uint64_t> logs = {client.OpenLog("worker:0", true),
                                        client.OpenLog("worker:1", true)};
    Touch(0, "enough");
    Touch(1, "enough");
    for (const uint64_t log : logs) ExpectCounted(client.ReadToEnd(log));
    const auto rest = client.WaitForEvent(events, event::kEnded);
    EXPECT_EQ(ResultOf(rest), "succeeded");
    EXPECT_EQ(PidOf(rest, task), 0) << "started again";
    WaitUntilNothingIsLeft();
  }
};

TEST_F(FaultsTest, TasksGoOnWhenTheCoordinatorsAgentIsKilled) { KillAgentInMidJob(0); }

TEST_F(FaultsTest, TasksGoOnWhenAnotherAgentIsKilled) { KillAgentInMidJob(1); }

TEST_F(FaultsTest, AFollowerLosesNoLineWhenTheFarAgentIsKilled) {
  auto clients = Deploy(2, {{"worker:0", 1, kCount}});
  WaitForLog(clients[0], "worker:0", "0\n1\n2\n");
  std::string log;
  const uint64_t stream = Follow(clients[0], "worker:0");
  WaitForText(clients[0], stream, log, "3\n");
  kill(FindRole(1, "tfdist-agent"), SIGKILL);
  WaitForText(clients[0], stream, log, "\n60\n");
  Touch(1, "enough");
  WaitForText(clients[0], stream, log, "done\n");
  ExpectCounted(log);
  WaitUntilNothingIsLeft();
}

TEST_F(FaultsTest, TheJobFailsAndSaysWhyWhenAKeeperIsKilled) {
  for (const int slot : {0, 1}) {
    job_ += std::to_string(slot);
    auto clients = Deploy(2, {{"worker:0", 0, kForever}, {"worker:1", 1, kForever}});
    const uint64_t first = clients[0].Send(type::kEvents, kFromTheFirst);
    clients[0].WaitForEvent(first, event::kTask, {{"task", "worker:1"}, {"state", "started"}});
    const pid_t agent = FindRole(slot, "tfdist-agent");
    kill(FindRole(slot, "tfdist-keeper"), SIGKILL);
    WaitUntil([&] { return FindRole(slot, "tfdist-keeper") == agent; },
              "the agent to take the keeper's place");

    AgentClient client = Attach(0);
    client.WaitForHello("agent");
    const uint64_t events = client.Send(type::kEvents, kFromTheFirst);
    const auto state = StateOf(client.WaitForEvent(events, event::kEnded));
    EXPECT_EQ(state.result, "failed");
    EXPECT_THAT(state.why, HasSubstr("host" + std::to_string(slot) + " lost its keeper"));
    WaitUntilNothingIsLeft();
  }
}

TEST_F(FaultsTest, TheJobFailsAndSaysWhyWhenAHolderIsKilled) {
  auto clients = Deploy(2, {{"ps:0", 0, kForever, false}, {"worker:0", 1, kForever}});
  const uint64_t events = clients[0].Send(type::kEvents, kFromTheFirst);
  clients[0].WaitForEvent(events, event::kTask, {{"task", "worker:0"}, {"state", "started"}});
  kill(FindRole(1, "tfdist-holder"), SIGKILL);
  const auto seen = clients[0].WaitForEvent(events, event::kStopping);
  EXPECT_EQ(seen.back().fields.at("result"), "failed");
  EXPECT_EQ(seen.back().fields.at("task"), "worker:0");
  EXPECT_THAT(seen.back().fields.at("why").get<std::string>(), HasSubstr("holder"));
  WaitUntilNothingIsLeft();
}

TEST_F(FaultsTest, AnAgentThatIsKilledAfterTheEndOfItsJobStillEnds) {
  auto clients = Deploy(1, {{"worker:0", 0, "echo hello"}});
  const uint64_t events = clients[0].Send(type::kEvents, kFromTheFirst);
  // A reader that takes nothing keeps the agent there.
  protocol::ReadLog request;
  request.task = "worker:0";
  clients[0].Send(type::kReadLog, request);
  clients[0].WaitForEvent(events, event::kEnded);
  kill(FindRole(0, "tfdist-agent"), SIGKILL);
  WaitUntilNothingIsLeft();
}

TEST_F(FaultsTest, AHostThatGoesSilentIsLostAndNamedAsUnreachable) {
  auto clients = Deploy(2, {{"ps:0", 0, kForever, false}, {"worker:0", 1, kForever}});
  const uint64_t events = clients[0].Send(type::kEvents, kFromTheFirst);
  clients[0].WaitForEvent(events, event::kTask, {{"task", "worker:0"}, {"state", "started"}});
  const uint64_t stream = Follow(clients[0], "worker:0");
  const pid_t agent = FindRole(1, "tfdist-agent");
  kill(agent, SIGSTOP);
  const auto last = clients[0].Wait([stream](const protocol::Message& m) { return m.id == stream; },
                                    "the end of the log");
  EXPECT_EQ(last.type, type::kEnd);
  EXPECT_EQ(last.body.at("why"), "host host1 is lost");
  const auto seen = clients[0].WaitForEvent(events, event::kEnded);
  EXPECT_EQ(ResultOf(seen), "failed");
  EXPECT_THAT(seen.back().fields.at("unreachable").get<std::vector<int>>(), ElementsAre(1));
  // Thawed, it is swept from its own host.
  kill(agent, SIGCONT);
  AgentClient client = Attach(1);
  client.WaitForHello("agent");
  client.Request(type::kSweep);
  WaitUntilNothingIsLeft();
}

TEST_F(FaultsTest, AnAgentWithoutCoordinatorEndsItsTasksAndItself) {
  orphan_timeout_ms_ = 1500;
  auto clients = Deploy(2, {{"ps:0", 0, kForever, false}, {"worker:0", 1, kForever}});
  const uint64_t events = clients[0].Send(type::kEvents, kFromTheFirst);
  clients[0].WaitForEvent(events, event::kTask, {{"task", "worker:0"}, {"state", "started"}});
  KillAllOf(0);
  WaitUntilNothingIsLeft();
}

TEST_F(FaultsTest, SweepEndsAHostWithoutItsCoordinator) {
  auto clients = Deploy(2, {{"ps:0", 0, kForever, false}, {"worker:0", 1, kForever}});
  const uint64_t events = clients[0].Send(type::kEvents, kFromTheFirst);
  clients[0].WaitForEvent(events, event::kTask, {{"task", "worker:0"}, {"state", "started"}});
  KillAllOf(0);
  const auto census = clients[1].Request(type::kSweep).get<protocol::Census>();
  EXPECT_THAT(census.left, ElementsAre());
  WaitUntilNothingIsLeft();
}

TEST_F(FaultsTest, TheFolderOfADeadSlotStillAnswersAndIsSwept) {
  auto clients = Deploy(1, {{"worker:0", 0, "echo hello; setsid sleep infinity & " + kForever}});
  const uint64_t events = clients[0].Send(type::kEvents, kFromTheFirst);
  WaitForLog(clients[0], "worker:0", "hello\n");
  clients[0].WaitForEvent(events, event::kTask, {{"task", "worker:0"}, {"state", "started"}});
  // Keeper and holder at once: what the task has started may survive.
  KillAllOf(0);
  {
    AgentClient client = Attach(0);
    client.WaitForHello("folder");
    EXPECT_EQ(client.ReadLog("worker:0", true), "hello\n");
    const uint64_t past = client.Send(type::kEvents, {{"from", 1}, {"follow", false}});
    client.WaitForEvent(past, event::kTask, {{"state", "started"}});
    EXPECT_THROW(client.Request(type::kStop, {{"why", ""}, {"force", false}}), Error);
    client.Request(type::kSweep);
  }
  WaitUntilNothingIsLeft();
}

}  // namespace
}  // namespace tfdist::agent
