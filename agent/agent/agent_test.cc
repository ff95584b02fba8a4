// Whole jobs, from `start` to the end, with the real executable.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <fstream>
#include <string>
#include <thread>

#include "agent/census/process_table.h"
#include "agent/testing/job_fixture.h"
#include "base/error.h"
#include "base/file.h"
#include "base/testing/temporary_folder.h"
#include "job/state.h"
#include "wire/shared_folder.h"

namespace tfdist::agent {
namespace {

using protocol::Event;
using protocol::Json;
using testing::HasSubstr;

namespace event = protocol::event;
namespace type = protocol::type;

const std::string kForever = "exec sleep infinity";
const std::string kUntilTold = "until [ -e enough ]; do sleep 0.02; done";

class AgentTest : public JobTest {
 protected:
  // Has the job stopped, and waits until all of it is gone.
  static void StopAndWait(AgentClient& client) {
    client.Request(type::kStop, {{"why", "test"}, {"force", false}});
    WaitUntilNothingIsLeft();
  }
  static protocol::JobState StateOf(const std::vector<Event>& events) {
    protocol::JobState state;
    for (const Event& one : events) state.Apply(one);
    return state;
  }
};

// The line of /proc/PID/limits, proc(5).
std::string CoreLimitOf(pid_t pid) {
  std::ifstream limits("/proc/" + std::to_string(pid) + "/limits");
  std::string line;
  while (std::getline(limits, line) && !line.starts_with("Max core file size")) {
  }
  return line;
}

TEST_F(AgentTest, NoneOfItsProcessesWritesACoreFile) {
  rlimit before{};
  getrlimit(RLIMIT_CORE, &before);
  rlimit unlimited = before;
  unlimited.rlim_cur = before.rlim_max;
  if (unlimited.rlim_cur == 0) GTEST_SKIP() << "this machine allows no core files";
  setrlimit(RLIMIT_CORE, &unlimited);
  {
    AgentClient start = CreateSlot(0);
    AgentClient attached = AttachToAgent(0);
    const auto processes = Left();
    EXPECT_EQ(processes.size(), 4U) << "start, keeper, agent, attach";
    for (const ProcessInfo& process : processes) {
      EXPECT_THAT(CoreLimitOf(process.id.pid), testing::ContainsRegex("size +0 "))
          << agent::Describe(process);
    }
    start.Request(type::kAbort);
  }
  setrlimit(RLIMIT_CORE, &before);
  WaitUntilNothingIsLeft();
}

TEST_F(AgentTest, RefusesOneKeyForTwoSlots) {
  {
    AgentClient client = CreateSlot(0);
    const std::string key(40, '1');
    try {
      client.Request(type::kPeers, {{"keys", {key, key}}});
      FAIL() << "taken";
    } catch (const Error& e) {
      EXPECT_THAT(e.cause(), HasSubstr("same public key"));
    }
    client.Request(type::kAbort);
  }
  WaitUntilNothingIsLeft();
}

TEST_F(AgentTest, RunsATaskAndLeavesNothingBehind) {
  Job job = Prepare(1, {{"worker:0", 0, "echo hello; echo oops >&2"}});
  AgentClient& client = job.clients[0];
  const uint64_t log = client.OpenLog("worker:0", true);
  Commit(job);
  EXPECT_EQ(ResultOf(client.WaitForEvent(job.events, event::kEnded)), "succeeded");
  const std::string text = client.ReadToEnd(log);
  EXPECT_THAT(text, HasSubstr("hello\n"));
  EXPECT_THAT(text, HasSubstr("oops\n"));
  EXPECT_TRUE(client.WaitForEnd());
  WaitUntilNothingIsLeft();
  for (const char* name : {"sock", "key", "secret"}) {
    EXPECT_FALSE(std::filesystem::exists(SlotFolder(0) / name)) << name;
  }
}

TEST_F(AgentTest, EndsTheParameterServersWhenTheWorkersAreDone) {
  const std::string up = "echo up; exec sleep infinity";
  Job job =
      Deploy(2, {{"ps:0", 0, up, false}, {"ps:1", 1, up, false}, {"worker:0", 1, kUntilTold}});
  AgentClient& client = job.clients[0];
  for (const char* task : {"ps:0", "ps:1"}) WaitForLog(client, task, "up\n");
  const uint64_t log = client.OpenLog("ps:1", true);
  Touch(1, "enough");
  EXPECT_EQ(client.ReadToEnd(log), "up\n");
  const auto state = StateOf(client.WaitForEvent(job.events, event::kEnded));
  EXPECT_EQ(state.result, protocol::JobResult::kSucceeded);
  ASSERT_TRUE(state.tasks.at("ps:0").exit);
  EXPECT_TRUE(state.tasks.at("ps:0").exit->by_us);
  EXPECT_TRUE(state.unconfirmed.empty());
  EXPECT_TRUE(state.unreachable.empty());
  WaitUntilNothingIsLeft();
}

TEST_F(AgentTest, NamesTheTaskThatFailedFirstWithItsLastLines) {
  Job job = Deploy(
      2, {{"ps:0", 0, kForever, false}, {"worker:0", 1, "echo 'about to fail' >&2; exit 3"}});
  const auto state = StateOf(job.clients[0].WaitForEvent(job.events, event::kEnded));
  EXPECT_EQ(state.result, protocol::JobResult::kFailed);
  EXPECT_EQ(state.first_task, "worker:0");
  EXPECT_EQ(state.why, "worker:0 on host1: exit code 3");
  EXPECT_EQ(state.tasks.at("worker:0").last_lines, "about to fail\n");
  WaitUntilNothingIsLeft();
}

TEST_F(AgentTest, StopsGracefullyThenByForce) {
  Job job =
      Deploy(1, {{"worker:0", 0,
                  "trap 'echo no' TERM; echo ready; while :; do sleep infinity & wait; done", true,
                  /*grace_ms=*/600'000}});
  AgentClient& client = job.clients[0];
  WaitForLog(client, "worker:0", "ready\n");
  client.Request(type::kStop, {{"why", "Ctrl-C"}, {"force", false}});
  WaitForLog(client, "worker:0", "no\n");
  client.Request(type::kStop, {{"why", "Ctrl-C again"}, {"force", true}});
  const auto state = StateOf(client.WaitForEvent(job.events, event::kEnded));
  EXPECT_EQ(state.result, protocol::JobResult::kStopped);
  EXPECT_EQ(state.why, "Ctrl-C");
  EXPECT_EQ(state.tasks.at("worker:0").exit->signal, SIGKILL);
  EXPECT_TRUE(state.tasks.at("worker:0").exit->by_us);
  WaitUntilNothingIsLeft();
}

TEST_F(AgentTest, EndsWhatATaskHasLeftBehind) {
  Job job = Deploy(1, {{"worker:0", 0,
                        "mkfifo left; setsid sh -c 'sleep infinity & : > left;"
                        " exec env -i sleep infinity' & : < left"}});
  EXPECT_EQ(ResultOf(job.clients[0].WaitForEvent(job.events, event::kEnded)), "succeeded");
  WaitUntilNothingIsLeft();
}

TEST_F(AgentTest, PassesArgumentsAndEnvironmentAsTheyAre) {
  const std::string odd = "a'b\"c $(touch x) \\ \n \xc3\xa9 \xff";
  AgentClient client = CreateSlot(0);
  auto description = Describe(0, {});
  protocol::TaskDescription task;
  task.task = "worker:0";
  task.argv = {"sh", "-c", "printf '%s|%s|%s|' \"$0\" \"$ODD\" \"$WHERE\"; pwd", odd};
  protocol::Text where("http://");
  where.parts.emplace_back(protocol::SlotAddress{0, true});
  where.parts.emplace_back(std::string(protocol::kWorkdirPath));
  task.env = {{"ODD", odd}, {"WHERE", where}};
  description.tasks = {task};
  client.Request(type::kDescribe, description);
  client.Request(type::kPeers, {{"keys", {std::string(40, '0')}}});
  const uint64_t log = client.OpenLog("worker:0", true);
  client.Request(type::kCommit, Plan(1, {{"worker:0", 0, ""}}));
  const std::string work = (SlotFolder(0) / "work").string();
  EXPECT_EQ(client.ReadToEnd(log),
            odd + "|" + odd + "|http://127.0.0.1" + work + "|" + work + "\n");
  WaitUntilNothingIsLeft();
}

TEST_F(AgentTest, CommitsOnceAndOnlyWhenAllHostsHaveReported) {
  AgentClient first = CreateSlot(0);
  AgentClient second = CreateSlot(1);
  const std::vector<Task> tasks = {{"worker:0", 0, kForever}};
  first.Request(type::kDescribe, Describe(0, tasks));
  const auto keys = {std::string(40, '0'), std::string(40, '1')};
  first.Request(type::kPeers, {{"keys", keys}});
  EXPECT_THROW(first.Request(type::kCommit, Plan(2, tasks)), Error);
  first.Request(type::kAbort);
  second.Request(type::kAbort);
  WaitUntilNothingIsLeft();
  EXPECT_FALSE(std::filesystem::exists(SlotFolder(0).parent_path()));
}

TEST_F(AgentTest, TakesTheSameCommitTwice) {
  const Job job = Deploy(1, {{"worker:0", 0, kForever}});
  AgentClient another = Attach(0);
  another.WaitForHello(protocol::Serving::kAgent);
  another.Request(type::kCommit, job.plan);
  EXPECT_THROW(another.Request(type::kAbort), Error);
  StopAndWait(another);
}

TEST_F(AgentTest, AJobThatIsEndedBeforeItsCommitIsNotCommitted) {
  Job job = Prepare(2, {{"worker:0", 0, kForever}, {"worker:1", 1, kForever}});
  // `tfdist down` while `tfdist up` is about to commit: the sweep takes a moment.
  AgentClient& client = job.clients[0];
  const uint64_t sweep = client.Send(type::kSweep);
  const uint64_t commit = client.Send(type::kCommit, job.plan);
  const auto answer = [](uint64_t id) {
    return [id](const protocol::Message& message) { return message.id == id; };
  };
  const protocol::Message said = client.Wait(answer(commit), "an answer to the commit");
  EXPECT_EQ(said.type, type::kError);
  EXPECT_THAT(said.body.dump(), testing::HasSubstr("ended before it began"));
  EXPECT_EQ(client.Wait(answer(sweep), "a census").type, type::kOk);
  job.clients[1].Request(type::kSweep);
  WaitUntilNothingIsLeft();
}

TEST_F(AgentTest, WhoBringsAJobUpIsToldThatAnotherEndsIt) {
  Job job = Prepare(1, {{"worker:0", 0, kForever}});
  AgentClient another = Attach(0);
  another.WaitForHello(protocol::Serving::kAgent);
  another.Send(type::kSweep);
  const protocol::Message said = job.clients[0].Wait(
      [](const protocol::Message& message) { return message.id == protocol::kNoRequest; },
      "a word unasked");
  EXPECT_EQ(said.type, type::kError);
  EXPECT_EQ(said.body.at("kind"), "ended");
  WaitUntilNothingIsLeft();
}

TEST_F(AgentTest, AJobThatIsEndedWhileItsCommitIsWrittenEnds) {
  Job job = Prepare(2, {{"worker:0", 0, kForever}, {"worker:1", 1, kForever}});
  AgentClient& client = job.clients[0];
  client.Send(type::kCommit, job.plan);
  client.Send(type::kSweep);
  const auto events = client.WaitForEvent(job.events, event::kEnded);
  EXPECT_EQ(ResultOf(events), "stopped");
  WaitUntilNothingIsLeft();
}

TEST_F(AgentTest, GivesUpWhenNobodyCommits) {
  AgentClient client(executable_, "start");
  client.WaitForHello(protocol::Serving::kStart);
  auto create = MakeCreate(0);
  create.uncommitted_limit_ms = 10'000;  // `start` may be slow to connect
  client.Send(type::kCreate, create);
  client.WaitForHello(protocol::Serving::kAgent);
  const TemporaryFolder shared;
  const protocol::Json mark = {{"path", shared.path().string()}, {"mark", "1a2b3c"}};
  client.Request(type::kMarkShared, mark);
  EXPECT_FALSE(std::filesystem::is_empty(shared.path()));
  EXPECT_TRUE(client.WaitForEnd());
  WaitUntilNothingIsLeft();
  EXPECT_FALSE(std::filesystem::exists(SlotFolder(0).parent_path()));
  EXPECT_TRUE(std::filesystem::is_empty(shared.path()));
}

TEST_F(AgentTest, StartsNothingForACliThatHasGone) {
  {
    AgentClient client(executable_, "start");
    client.WaitForHello(protocol::Serving::kStart);
    client.StopReading();
    client.Send(type::kCreate, MakeCreate(0));
  }
  EXPECT_FALSE(std::filesystem::exists(SlotFolder(0)));
  WaitUntilNothingIsLeft();
}

TEST_F(AgentTest, LetsOneJobOfANameRunAtATime) {
  Job job = Deploy(1, {{"worker:0", 0, kForever}});
  AgentClient second(executable_, "start");
  second.WaitForHello(protocol::Serving::kStart);
  auto create = MakeCreate(0);
  create.job = "test-20260802-000000";
  second.Send(type::kCreate, create);
  try {
    second.WaitForHello(protocol::Serving::kAgent);
    FAIL() << "two jobs of one name";
  } catch (const protocol::NameTaken& e) {
    EXPECT_EQ(e.job(), job_);
    EXPECT_EQ(e.plan_sha256(), create.plan_sha256);
  }
  EXPECT_FALSE(std::filesystem::exists(base_ / "jobs" / create.job));
  StopAndWait(job.clients[0]);
}

// Of two `up` at once the one that loses slot 0 may find the other's agents where their CLI has just left them.
TEST_F(AgentTest, AnAgentThatIsAboutToHearOfItsCommitIsNotEndedForAnotherJob) {
  Job job = Prepare(2, {{"worker:0", 0, kForever}, {"worker:1", 1, kForever}});
  job.clients.pop_back();  // the CLI leaves slot 1
  AgentClient second(executable_, "start");
  second.WaitForHello(protocol::Serving::kStart);
  auto create = MakeCreate(1);
  create.job = "test-20260802-000000";
  second.Send(type::kCreate, create);
  std::this_thread::sleep_for(
      std::chrono::milliseconds(500));  // it looks at slot 1's agent meanwhile
  Commit(job);
  EXPECT_THROW(second.WaitForHello(protocol::Serving::kAgent), protocol::NameTaken);
  job.clients[0].WaitForEvent(job.events, event::kTask,
                              {{"task", "worker:1"}, {"state", "started"}});
  StopAndWait(job.clients[0]);
}

}  // namespace
}  // namespace tfdist::agent
