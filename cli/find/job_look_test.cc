#include "cli/find/job_look.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tfdist::cli {
namespace {

namespace event = protocol::event;
using protocol::TaskLook;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A ps on 10.0.0.1 and three workers on 10.0.0.2, .3 and .4; all sleep, and are connected to the ps.
class JobLookTest : public testing::Test {
 protected:
  JobLookTest() {
    protocol::JobPlan plan;
    plan.job = "job-20260801T120000Z-1a2b3c";
    for (const char* host : {"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"}) {
      plan.slots.push_back({.host = host, .address = host, .spare = false});
    }
    AddTask(plan, "ps:0", 0);
    for (int index = 0; index < 3; ++index) {
      AddTask(plan, "worker:" + std::to_string(index), index + 1);
    }
    Apply(event::Committed{plan});
    Apply(event::Attempt{1, "started", {}});
    for (const protocol::TaskPlan& task : plan.tasks) Apply(event::TaskStarted{task.task, 1, 1, 7});
    look_.deep = true;
    look_.silent_ms = 65'000;
    for (int slot = 0; slot < 4; ++slot) {
      TaskLook task;
      task.task = plan.tasks[static_cast<size_t>(slot)].task;
      task.state = "S";
      task.processes = 1;
      task.silent_ms = 65'000;
      task.ports = task.listens = {slot == 0 ? 2223 : 2222};
      look_.hosts.push_back({slot, {task}});
    }
    for (int worker = 1; worker < 4; ++worker) Connect(worker);
  }

  TaskLook& At(int slot) { return look_.hosts.at(static_cast<size_t>(slot)).tasks.front(); }
  std::vector<std::string> Say() { return Sentences(look_, state_); }
  // Of a worker to the ps, both ends.
  void Connect(int worker) {
    const std::string end = "10.0.0." + std::to_string(worker + 1) + ":40000";
    At(worker).connections.push_back({end, "10.0.0.1:2223", false, 0});
    At(0).connections.push_back({"10.0.0.1:2223", end, false, 0});
  }
  void Apply(event::Body body) {
    ++number_;
    state_.Apply({number_, static_cast<int64_t>(number_), std::move(body)});
  }

  JobLook look_;
  protocol::JobState state_;

 private:
  static void AddTask(protocol::JobPlan& plan, const std::string& name, int slot) {
    protocol::TaskPlan task;
    task.task = name;
    task.slot = slot;
    plan.tasks.push_back(task);
  }
  uint64_t number_ = 0;
};

TEST_F(JobLookTest, NamesTheStoppedTaskAndThoseThatWaitForIt) {
  At(0).state = "T";
  EXPECT_THAT(Say(), ElementsAre("worker:[0-2] wait for ps:0, which is stopped"));
  At(1).cpu_percent = 97;  // it computes, and waits for nobody
  EXPECT_THAT(Say(), ElementsAre("worker:[1-2] wait for ps:0, which is stopped",
                                 "worker:0 computes and writes nothing"));
}

TEST_F(JobLookTest, AStoppedTaskThatNobodyIsConnectedToIsNamedAlone) {
  At(0).connections.clear();
  for (int worker = 1; worker < 4; ++worker) At(worker).connections.clear();
  At(2).state = "T";
  EXPECT_THAT(Say(), ElementsAre("worker:1 is stopped"));
}

TEST_F(JobLookTest, SaysWhoseAnswerIsMissing) {
  At(1).connections = {{"10.0.0.2:40001", "10.0.0.1:2223", true, 0}};
  EXPECT_THAT(Say(), ElementsAre("worker:0 waits for an answer from ps:0 at 10.0.0.1:2223: packets "
                                 "are dropped on the way, or the host is off"));
  At(0).listens.clear();
  EXPECT_THAT(Say(), ElementsAre("worker:0 waits for an answer from ps:0 at 10.0.0.1:2223: it does "
                                 "not listen there"));
  look_.hosts.erase(look_.hosts.begin());
  Apply(event::Host{0, protocol::HostState::kLost, "silent"});
  EXPECT_THAT(Say(),
              ElementsAre("worker:0 waits for an answer from 10.0.0.1:2223: host 10.0.0.1 is lost",
                          "what ps:0 does is not known, and it may write: no answer in time"));
}

TEST_F(JobLookTest, NamesWhatElseKeepsTasks) {
  At(3).state = "D";
  At(1).connections[0].unread_bytes = 512;
  EXPECT_THAT(Say(), ElementsAre("worker:2 waits for a disk or a file server",
                                 "worker:0 has sent 512 bytes to ps:0 that are not confirmed now"));
}

TEST_F(JobLookTest, SaysWhoDoesNotListenOnlyWhereNothingElseIsFound) {
  At(2).listens.clear();
  EXPECT_THAT(Say(),
              ElementsAre("worker:1 does not listen on the port that the cluster file gives it"));
  At(0).state = "T";
  EXPECT_THAT(Say(), ElementsAre("worker:[0-2] wait for ps:0, which is stopped"));
}

TEST_F(JobLookTest, AProgramWithAClusterOfItsOwnIsToldAlsoWhereItDialsAndWrites) {
  EXPECT_EQ(OfAnotherCluster(look_, state_), "");
  for (int slot = 0; slot < 4; ++slot) {
    At(slot).connections.clear();
    At(slot).listens = {5000 + slot};
  }
  const std::string sentence =
      "ps:0, worker:[0-2] do not listen on the ports that the cluster file gives them, but on "
      "5000, "
      "5001, 5002, 5003: does the program set TF_CONFIG or its cluster itself?";
  EXPECT_EQ(OfAnotherCluster(look_, state_), sentence);
  At(1).connections = {{"10.0.0.2:40001", "10.0.0.9:5009", true, 0}};
  EXPECT_THAT(Say(),
              ElementsAre(HasSubstr("worker:0 waits for an answer from 10.0.0.9:5009"), sentence));
  EXPECT_EQ(OfAnotherCluster(look_, state_), sentence);
  At(2).cpu_percent = 97;
  EXPECT_EQ(OfAnotherCluster(look_, state_), "") << "it computes";
  At(2).cpu_percent = 0;
  Connect(2);
  EXPECT_EQ(OfAnotherCluster(look_, state_), "") << "they have found each other";
  At(0).connections.clear();
  At(2).connections.clear();
  At(0).listens = At(0).ports;
  EXPECT_EQ(OfAnotherCluster(look_, state_), "") << "the others may dial in time";
}

TEST_F(JobLookTest, WhoMayWaitForAnyEndedTaskIsToldAlsoWhereTheyWrite) {
  EXPECT_EQ(MayWaitForTheEnded(look_, state_), "");
  Apply(
      event::TaskExited{.task = "worker:1", .attempt = 1, .run = 1, .exit = {}, .last_lines = {}});
  look_.hosts[2].tasks.clear();
  EXPECT_EQ(
      MayWaitForTheEnded(look_, state_),
      "worker:1 has ended with exit code 0, and ps:0, worker:[0,2] still run: where they wait for "
      "worker:1, the job never ends (`done` says whose end is the job's)");
  At(3).cpu_percent = 97;
  EXPECT_EQ(MayWaitForTheEnded(look_, state_), "");
  At(3).cpu_percent = 0;
  state_.plan.finish_timeout_ms = 1000;
  EXPECT_EQ(MayWaitForTheEnded(look_, state_), "") << "the job ends by itself";
  state_.tally.decided.insert({1, 2});
  EXPECT_THAT(Say(), Contains("worker:1 has ended with exit code 0, and ps:0, worker:[0,2] still "
                              "run: 1s after that the job ends (`finish_timeout`)"));
}

TEST_F(JobLookTest, SaysThatNothingIsFoundAndNothingWithoutALook) {
  EXPECT_THAT(Say(), ElementsAre(HasSubstr("none is stopped")));
  look_.deep = false;
  EXPECT_THAT(Say(), IsEmpty());
  EXPECT_TRUE(LookJson(look_, state_).is_null());
}

TEST_F(JobLookTest, JsonNamesTheTaskAtTheOtherEnd) {
  const auto value = LookJson(look_, state_);
  EXPECT_EQ(value["tasks"][1]["connections"][0]["task"], "ps:0");
  EXPECT_EQ(value["tasks"][0]["connections"][2]["task"], "worker:2");
}

TEST_F(JobLookTest, DescribesATaskInALine) {
  At(0).state = "T";
  EXPECT_EQ(Describe(At(0)), "stopped, 0 % of a CPU, silent for 65s, 3 connections");
}

}  // namespace
}  // namespace tfdist::cli
