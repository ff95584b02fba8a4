// Tasks that fail are started again: real agents, keepers, holders and tasks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "agent/process/run_folder.h"
#include "agent/testing/job_fixture.h"
#include "base/file.h"
#include "base/unique_fd.h"
#include "job/state.h"

namespace tfdist::agent {
namespace {

using protocol::Event;
using protocol::RestartPolicy;
using testing::HasSubstr;
using testing::MatchesRegex;

namespace event = protocol::event;
namespace type = protocol::type;

constexpr protocol::RestartRule kAlone = {.policy = RestartPolicy::kTask, .backoff_ms = 20};
constexpr protocol::RestartRule kGang = {.policy = RestartPolicy::kGang, .backoff_ms = 20};
// Fails once, then waits for `enough` in its folder and succeeds.
constexpr const char* kFailsOnce =
    "echo run of attempt $TFDIST_ATTEMPT\n"
    "mkdir once 2>/dev/null && kill -9 $$\n"
    "until [ -e enough ]; do sleep 0.05; done";
constexpr const char* kUntilEnough =
    "echo run of attempt $TFDIST_ATTEMPT; until [ -e enough ]; do sleep 0.05; done";

class RestartsTest : public JobTest {
 protected:
  static size_t Starts(const std::vector<Event>& events, const std::string& task) {
    return static_cast<size_t>(std::ranges::count_if(events, [&](const Event& one) {
      const auto* started = std::get_if<event::TaskStarted>(&one.body);
      return started != nullptr && started->task == task;
    }));
  }
  static Task With(protocol::RestartRule rule, Task task) {
    task.restart = rule;
    return task;
  }
};

TEST_F(RestartsTest, AKilledWorkerStartsAgainAloneInItsPlace) {
  Job job = Deploy(
      2, {With(kAlone, {"worker:0", 0, kUntilEnough}), With(kAlone, {"worker:1", 1, kFailsOnce})});
  auto seen = job.clients[0].WaitForEvent(job.events, event::kTask,
                                          {{"task", "worker:1"}, {"run", 2}, {"state", "started"}});
  const uint64_t log = job.clients[0].OpenLog("worker:1", true);
  Touch(0, "enough");
  Touch(1, "enough");
  EXPECT_EQ(job.clients[0].ReadToEnd(log), "run of attempt 1\nrun of attempt 1\n");
  const auto rest = job.clients[0].WaitForEvent(job.events, event::kEnded);
  EXPECT_EQ(ResultOf(rest), "succeeded");
  // Hosts report their tasks in any order.
  EXPECT_EQ(Starts(seen, "worker:0") + Starts(rest, "worker:0"), 1U);
  EXPECT_EQ(Starts(seen, "worker:1") + Starts(rest, "worker:1"), 2U);
  WaitUntilNothingIsLeft();
}

// At each beat of the coordinator alone, once a second, each pause but the first would last one.
TEST_F(RestartsTest, AShortPauseIsNotMadeLongerByTheCoordinatorsBeat) {
  protocol::RestartRule rule = kAlone;
  rule.limit = 4;
  Job job = Deploy(1, {With(rule, {"worker:0", 0, "exit 3"})});
  const auto seen = job.clients[0].WaitForEvent(job.events, event::kEnded);
  int64_t decided_ns = 0;
  int64_t shortest_ns = std::numeric_limits<int64_t>::max();
  for (const Event& one : seen) {
    if (protocol::KindOf(one.body) == event::kRestarting) decided_ns = one.time_ns;
    const auto* run = std::get_if<event::Run>(&one.body);
    if (run != nullptr && run->run > 2) {
      shortest_ns = std::min(shortest_ns, one.time_ns - decided_ns);
    }
  }
  EXPECT_LT(shortest_ns, 500'000'000);
  WaitUntilNothingIsLeft();
}

// The run before has its grace, and is gone before the next one begins.
TEST_F(RestartsTest, ATaskThatIsAskedToStartAgainEndsFirst) {
  const char* const script =
      "trap 'sleep 0.3; echo ends; exit 0' TERM\n"
      "echo begins\n"
      "until [ -e enough ]; do sleep 0.05; done";
  Job job = Deploy(
      2, {With(kAlone, {"worker:0", 0, kUntilEnough}), With(kAlone, {"worker:1", 1, script})});
  const uint64_t log = job.clients[0].OpenLog("worker:1", true);
  WaitForLog(job.clients[0], "worker:1", "begins");
  const auto answer =
      job.clients[0].Request(type::kRestart, {{"tasks", {"worker:1"}}, {"all", false}});
  EXPECT_EQ(answer.at("runs").at(0).at("run"), 2);
  const auto seen = job.clients[0].WaitForEvent(
      job.events, event::kTask, {{"task", "worker:1"}, {"run", 2}, {"state", "started"}});
  Touch(0, "enough");
  Touch(1, "enough");
  // The shell may add a word of its own on what the signal has ended.
  EXPECT_THAT(job.clients[0].ReadToEnd(log), MatchesRegex("begins\n(Terminated\n)?ends\nbegins\n"));
  const auto rest = job.clients[0].WaitForEvent(job.events, event::kEnded);
  EXPECT_EQ(ResultOf(rest), "succeeded");
  EXPECT_EQ(Starts(seen, "worker:0") + Starts(rest, "worker:0"), 1U);
  WaitUntilNothingIsLeft();
}

// The agent that has to end the run is killed meanwhile, then the coordinator that has ordered it.
TEST_F(RestartsTest, AnAskedRestartOutlivesTheAgents) {
  const char* const script =
      "trap 'sleep 0.7; exit 0' TERM\n"
      "echo begins\n"
      "until [ -e enough ]; do sleep 0.05; done";
  Job job = Deploy(
      2, {With(kAlone, {"worker:0", 0, kUntilEnough}), With(kAlone, {"worker:1", 1, script})});
  WaitForLog(job.clients[0], "worker:1", "begins");
  // A run counts from the report of its start on: an agent that is killed before it has sent that reports the next run alone.
  for (const char* task : {"worker:0", "worker:1"}) WaitForStart(job, task);
  for (const int killed : {1, 0}) {
    const int run = killed == 1 ? 2 : 3;
    AgentClient client = AttachToAgent(0);
    const auto answer = client.Request(type::kRestart, {{"tasks", {"worker:1"}}, {"all", false}});
    EXPECT_EQ(answer.at("runs").at(0).at("run"), run);
    kill(FindRole(killed, "tfdist-agent"), SIGKILL);
    AskSlot(0, [&](AgentClient& asked) {
      asked.WaitForEvent(asked.Send(type::kEvents, kFromTheFirst), event::kTask,
                         {{"task", "worker:1"}, {"run", run}, {"state", "started"}});
    });
  }
  Touch(0, "enough");
  Touch(1, "enough");
  std::vector<Event> events;
  AskSlot(0, [&](AgentClient& asked) {
    events = asked.WaitForEvent(asked.Send(type::kEvents, kFromTheFirst), event::kEnded);
  });
  EXPECT_EQ(ResultOf(events), "succeeded");
  EXPECT_EQ(Starts(events, "worker:0"), 1U);
  EXPECT_EQ(Starts(events, "worker:1"), 3U);
  WaitUntilNothingIsLeft();
}

TEST_F(RestartsTest, AKilledServerStartsAllTasksAgain) {
  Job job = Deploy(2, {With(kGang, {"ps:0", 1, kFailsOnce, false}),
                       With(kAlone, {"worker:0", 0, kUntilEnough})});
  job.clients[0].WaitForEvent(job.events, event::kAttempt, {{"attempt", 2}});
  const uint64_t log = job.clients[0].OpenLog("worker:0", true);
  Touch(0, "enough");
  EXPECT_THAT(job.clients[0].ReadToEnd(log), HasSubstr("run of attempt 2"));
  EXPECT_EQ(ResultOf(job.clients[0].WaitForEvent(job.events, event::kEnded)), "succeeded");
  WaitUntilNothingIsLeft();
}

TEST_F(RestartsTest, WhatTheRunBeforeHasLeftIsGoneFirst) {
  const char* script =
      "if mkdir once 2>/dev/null; then\n"
      "  env -i setsid sleep 1000 & echo $! > left; kill -9 $$\n"
      "fi\n"
      "kill -0 $(cat left) 2>/dev/null && echo still there || echo gone";
  Job job = Deploy(1, {With(kAlone, {"worker:0", 0, script})});
  const uint64_t log = job.clients[0].OpenLog("worker:0", true);
  EXPECT_EQ(job.clients[0].ReadToEnd(log), "gone\n");
  EXPECT_EQ(ResultOf(job.clients[0].WaitForEvent(job.events, event::kEnded)), "succeeded");
  WaitUntilNothingIsLeft();
}

// Its holder waits two seconds for the output's end, and then ends the descendant.
TEST_F(RestartsTest, AFailureIsToldWhileADescendantStillHoldsTheOutput) {
  const char* script =
      "mkdir once 2>/dev/null || exit 0\n"
      "sleep 1000 & echo $! > left\n"
      "echo why it failed; exit 3";
  Job job = Deploy(1, {With(kAlone, {"worker:0", 0, script})});
  const auto seen =
      job.clients[0].WaitForEvent(job.events, event::kTask, {{"state", "exited"}, {"run", 1}});
  const pid_t left = std::stoi(ReadFileIfExists(SlotFolder(0) / "work" / "left", 100).value());
  EXPECT_EQ(kill(left, 0), 0);
  EXPECT_EQ(std::get<event::TaskExited>(seen.back().body).last_lines.value, "why it failed\n");
  EXPECT_EQ(ResultOf(job.clients[0].WaitForEvent(job.events, event::kEnded)), "succeeded");
  WaitUntilNothingIsLeft();
}

// A socket that listens, as a program of somebody else does.
class Stranger {
 public:
  Stranger() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    const int yes = 1;  // until it listens, others may still
    setsockopt(fd_.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(bind(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    socklen_t size = sizeof address;
    getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
  }
  void Listen() { EXPECT_EQ(listen(fd_.get(), 1), 0); }
  [[nodiscard]] int port() const { return port_; }

 private:
  UniqueFd fd_;
  int port_ = 0;
};

TEST_F(RestartsTest, AStrangerOnThePortAtARestartIsNamed) {
  Stranger stranger;
  protocol::RestartRule rule = kAlone;
  rule.limit = 1;
  const std::vector<Task> tasks = {With(rule, {"worker:0", 0, "exit 3"})};
  Job job = Prepare(1, tasks);
  protocol::HostDescription description = Describe(0, tasks);
  description.tasks[0].ports = {stranger.port()};
  job.clients[0].Request(type::kDescribe, description);
  stranger.Listen();
  Commit(job);
  const auto seen = job.clients[0].WaitForEvent(job.events, event::kStopping);
  EXPECT_THAT(std::get<event::Stopping>(seen.back().body).why,
              AllOf(HasSubstr("could not be prepared: port " + std::to_string(stranger.port()) +
                              " of worker:0 is in use by "),
                    HasSubstr(std::to_string(getpid()))));
  job.clients[0].WaitForEvent(job.events, event::kEnded);
  WaitUntilNothingIsLeft();
}

// A server as TensorFlow's are: it listens on its port with SO_REUSEADDR. Before its first run is killed, that does
// `first_run`; the next one says what it has found.
std::string Server(int port, const std::string& first_run) {
  return "exec python3 -I -S -c \"\n"
         "import os, signal, socket, time\n"
         "port = " +
         std::to_string(port) +
         "\n"
         "table = [line.split() for line in open('/proc/net/tcp')][1:]\n"
         "end = lambda: os.kill(os.getpid(), signal.SIGKILL)\n"
         "waiting = [row for row in table if row[1].endswith(':%04X' % port) and row[3] == '06']\n"
         "server = socket.socket()\n"
         "server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n"
         "server.bind(('127.0.0.1', port))\n"
         "server.listen()\n"
         "if not os.path.exists('again'):\n"
         "    open('again', 'w').close()\n" +
         first_run +
         "    end()\n"
         "print('listens,', len(waiting), 'in TIME_WAIT')\n"
         "\"";
}

// The end that closes first keeps a connection in TIME_WAIT for a minute (RFC 9293, section 3.6.1).
constexpr const char* kCloseFirst =
    "    for _ in range(3):\n"
    "        client = socket.create_connection(('127.0.0.1', port))\n"
    "        accepted = server.accept()[0]\n"
    "        accepted.close()\n"
    "        client.recv(1)\n"
    "        client.close()\n";
constexpr const char* kLeaveAListener =
    "    if os.fork() == 0:\n"
    "        os.setsid()\n"
    "        time.sleep(1000)\n";

class ServerRestartsTest : public RestartsTest {
 protected:
  // What the server has written, in all its runs.
  std::string RunServer(const std::string& first_run) {
    const int port = Stranger().port();
    const std::vector<Task> tasks = {With(kAlone, {"ps:0", 0, Server(port, first_run)})};
    Job job = Prepare(1, tasks);
    protocol::HostDescription description = Describe(0, tasks);
    description.tasks[0].ports = {port};
    job.clients[0].Request(type::kDescribe, description);
    const uint64_t log = job.clients[0].OpenLog("ps:0", true);
    Commit(job);
    std::string text = job.clients[0].ReadToEnd(log);
    EXPECT_EQ(ResultOf(job.clients[0].WaitForEvent(job.events, event::kEnded)), "succeeded");
    WaitUntilNothingIsLeft();
    return text;
  }
};

TEST_F(ServerRestartsTest, ConnectionsOfItsPredecessorInTimeWaitDoNotKeepItFromItsPort) {
  EXPECT_EQ(RunServer(kCloseFirst), "listens, 3 in TIME_WAIT\n");
}

TEST_F(ServerRestartsTest, AGrandchildOfItsPredecessorThatStillListensIsGoneFirst) {
  EXPECT_EQ(RunServer(kLeaveAListener), "listens, 0 in TIME_WAIT\n");
}

TEST_F(RestartsTest, OfATaskThatStartsOftenTheNewestRunFoldersStayAndAllOfItsLog) {
  protocol::RestartRule rule = kAlone;
  rule.limit = 20;
  rule.backoff_ms = 0;
  const char* script = "echo run >> runs; echo run; [ $(wc -l < runs) -ge 15 ] || exit 3";
  Job job = Prepare(1, {With(rule, {"worker:0", 0, script})});
  const uint64_t log = job.clients[0].OpenLog("worker:0", true);
  Commit(job);
  const std::string text = job.clients[0].ReadToEnd(log);
  EXPECT_EQ(std::ranges::count(text, '\n'), 15);
  EXPECT_EQ(ResultOf(job.clients[0].WaitForEvent(job.events, event::kEnded)), "succeeded");
  const std::filesystem::path folder = SlotFolder(0) / "tasks" / "worker-0";
  for (int run = 1; run <= 15; ++run) {
    EXPECT_EQ(std::filesystem::exists(folder / RunFolderName(1, run)), run > 4) << run;
  }
  WaitUntilNothingIsLeft();
}

TEST_F(RestartsTest, TheJobFailsAtTheLimitAndNamesTheCause) {
  protocol::RestartRule rule = kAlone;
  rule.limit = 2;
  Job job = Deploy(1, {With(rule, {"worker:0", 0, "echo attempt; exit 3"})});
  const auto seen = job.clients[0].WaitForEvent(job.events, event::kEnded);
  EXPECT_EQ(ResultOf(seen), "failed");
  EXPECT_EQ(Starts(seen, "worker:0"), 3U);
  WaitUntilNothingIsLeft();
}

TEST_F(RestartsTest, ACommandThatCannotBeExecutedFailsAtOnce) {
  Job job = Prepare(1, {With(kAlone, {"worker:0", 0, "exit 0"})});
  protocol::HostDescription description = Describe(0, {With(kAlone, {"worker:0", 0, "exit 0"})});
  // The preflight lets it pass: its interpreter is there, and is no executable.
  std::filesystem::path script = base_ / "not-executable";
  {
    std::ofstream(script) << "#!/etc/passwd\n";
    std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  }
  description.tasks[0].argv = {script.string()};
  job.clients[0].Request(type::kDescribe, description);
  Commit(job);
  const auto seen = job.clients[0].WaitForEvent(job.events, event::kEnded);
  EXPECT_EQ(ResultOf(seen), "failed");
  EXPECT_EQ(
      std::ranges::count_if(
          seen, [](const Event& e) { return protocol::KindOf(e.body) == event::kRestarting; }),
      0);
  WaitUntilNothingIsLeft();
}

// The coordinator's agent dies between the decision and what follows from it.
TEST_F(RestartsTest, GoesOnWhenTheCoordinatorsAgentIsKilledMeanwhile) {
  Job job = Deploy(2, {With(kGang, {"ps:0", 1, kFailsOnce, false}),
                       With(kAlone, {"worker:0", 0, kUntilEnough})});
  job.clients[0].WaitForEvent(job.events, event::kRestarting);
  kill(FindRole(0, "tfdist-agent"), SIGKILL);
  AgentClient client = AttachToAgent(0);
  const uint64_t events = client.Send(type::kEvents, kFromTheFirst);
  client.WaitForEvent(events, event::kTask,
                      {{"task", "worker:0"}, {"attempt", 2}, {"state", "started"}});
  Touch(0, "enough");
  const auto rest = client.WaitForEvent(events, event::kEnded);
  EXPECT_EQ(ResultOf(rest), "succeeded");
  WaitUntilNothingIsLeft();
}

TEST_F(RestartsTest, AKilledKeeperTakesItsTasksAlongAndTheyStartAgain) {
  Job job = Deploy(2, {With(kAlone, {"worker:0", 0, kUntilEnough}),
                       With(kAlone, {"worker:1", 1, kUntilEnough})});
  job.clients[0].WaitForEvent(job.events, event::kTask,
                              {{"task", "worker:1"}, {"state", "started"}});
  kill(FindRole(1, "tfdist-keeper"), SIGKILL);
  const auto seen = job.clients[0].WaitForEvent(job.events, event::kRestarting);
  EXPECT_THAT(std::get<event::Restarting>(seen.back().body).why,
              HasSubstr(": its keeper was killed, which ended its tasks"));
  job.clients[0].WaitForEvent(job.events, event::kTask,
                              {{"task", "worker:1"}, {"run", 2}, {"state", "started"}});
  Touch(0, "enough");
  Touch(1, "enough");
  EXPECT_EQ(ResultOf(job.clients[0].WaitForEvent(job.events, event::kEnded)), "succeeded");
  WaitUntilNothingIsLeft();
}

}  // namespace
}  // namespace tfdist::agent
