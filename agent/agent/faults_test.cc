// Whole jobs in which one of our processes dies, or goes silent.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <sstream>

#include "agent/census/census.h"
#include "agent/control/tcp_address.h"
#include "agent/coordinator/disk/journal.h"
#include "agent/slot/slot_folder.h"
#include "agent/testing/job_fixture.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/testing/test_paths.h"
#include "base/unique_fd.h"
#include "job/state.h"
#include "wire/contact.h"

namespace tfdist::agent {
namespace {

using protocol::Event;
using protocol::Json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::MatchesRegex;

namespace event = protocol::event;
namespace type = protocol::type;

// Writes a numbered line every 20 ms until the file `enough` is there; then some more.
const std::string kCount =
    "i=0; until [ -e enough ]; do echo $i; i=$((i+1)); sleep 0.02; done; echo done";
const std::string kForever = "exec sleep infinity";

class FaultsTest : public JobTest {
 protected:
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
  static bool IsStart(const Event& one) {
    return std::holds_alternative<event::TaskStarted>(one.body);
  }
  // Why the host refuses a slot of this job; nullopt: it has accepted it.
  std::optional<protocol::NameTaken> NameTakenOn(int slot) {
    AgentClient client(executable_, "start");
    client.WaitForHello(protocol::Serving::kStart);
    try {
      client.Request(type::kCreate, MakeCreate(slot));
      return std::nullopt;
    } catch (const protocol::NameTaken& taken) {
      return taken;
    }
  }
  // Kills the agent of `slot` in mid-job; the job must not notice.
  void KillAgentInMidJob(int slot) {
    Job job = Deploy(2, {{"worker:0", 0, kCount}, {"worker:1", 1, kCount}});
    const std::vector<int> pids = {WaitForStart(job, "worker:0"), WaitForStart(job, "worker:1")};
    WaitForLog(job.clients[0], "worker:1", "0\n1\n2\n");
    kill(FindRole(slot, "tfdist-agent"), SIGKILL);

    AgentClient client = AttachToAgent(0);
    const uint64_t events = client.Send(type::kEvents, kFromTheFirst);
    client.WaitForEvent(events, event::kHost, {{"slot", slot}, {"state", "agent-restarted"}});
    for (const int pid : pids) {
      ASSERT_GT(pid, 0);
      EXPECT_EQ(::kill(pid, 0), 0) << "a task has died";
    }
    const std::vector<uint64_t> logs = {client.OpenLog("worker:0", true),
                                        client.OpenLog("worker:1", true)};
    Touch(0, "enough");
    Touch(1, "enough");
    for (const uint64_t log : logs) ExpectCounted(client.ReadToEnd(log));
    const auto rest = client.WaitForEvent(events, event::kEnded);
    EXPECT_EQ(ResultOf(rest), "succeeded");
    EXPECT_EQ(std::ranges::count_if(rest, IsStart), 0) << "started again";
    WaitUntilNothingIsLeft();
  }
  Job DeployAndKillKeeperOf(int slot) {
    Job job = Deploy(2, {{"worker:0", 0, kForever}, {"worker:1", 1, kForever}});
    for (const char* task : {"worker:0", "worker:1"}) WaitForStart(job, task);
    kill(FindRole(slot, "tfdist-keeper"), SIGKILL);
    return job;
  }
  static void ExpectKeeperLost(const std::vector<Event>& events, int slot) {
    const auto state = StateOf(events);
    EXPECT_EQ(state.result, protocol::JobResult::kFailed);
    EXPECT_THAT(state.why, HasSubstr("host" + std::to_string(slot) + ": its keeper was killed"));
  }
};

// Connections to this machine that say nothing.
std::vector<UniqueFd> ConnectIdle(int port, size_t count) {
  const TcpAddress address = ParseTcpAddress("127.0.0.1", port);
  std::vector<UniqueFd> connections;
  for (size_t i = 0; i < count; ++i) {
    connections.emplace_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(connect(connections.back().get(), address.get(), address.size), 0);
  }
  return connections;
}

size_t CountDescriptors(pid_t pid) {
  const std::filesystem::path folder("/proc/" + std::to_string(pid) + "/fd");
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder),
                                           std::filesystem::directory_iterator()));
}

TEST_F(FaultsTest, IdleConnectionsOfStrangersDoNotKeepTheCoordinatorFromItsWork) {
  Job job = Deploy(2, {{"worker:0", 1, kForever}});
  WaitForStart(job, "worker:0");
  const pid_t agent = FindRole(0, "tfdist-agent");
  constexpr rlimit kFewDescriptors{256, 256};
  ASSERT_EQ(prlimit(agent, RLIMIT_NOFILE, &kFewDescriptors, nullptr), 0);
  const int port = ReadSlotInfo(agent::SlotFolder(SlotFolder(0))).port;
  const std::vector<UniqueFd> idle = ConnectIdle(port, 400);
  // Before their handshakes time out, which takes 5 s.
  EXPECT_TRUE(WaitUntil([&] { return CountDescriptors(agent) < 150; }, "few descriptors",
                        std::chrono::seconds(4)))
      << CountDescriptors(agent);
  // A new reader, and a new connection of the other host.
  kill(FindRole(1, "tfdist-agent"), SIGKILL);
  const auto begun = SystemClock().Now();
  AskSlot(0, [&](AgentClient& client) {
    client.WaitForEvent(client.Send(type::kEvents, kFromTheFirst), event::kHost,
                        {{"slot", 1}, {"state", "agent-restarted"}});
  });
  EXPECT_LT(SystemClock().Now() - begun, std::chrono::seconds(4));
  job.clients[0].Send(type::kStop, {{"why", "enough"}, {"force", false}});
  WaitUntilNothingIsLeft();
}

TEST_F(FaultsTest, TasksGoOnWhenTheCoordinatorsAgentIsKilled) { KillAgentInMidJob(0); }

TEST_F(FaultsTest, TasksGoOnWhenAnotherAgentIsKilled) { KillAgentInMidJob(1); }

TEST_F(FaultsTest, AFollowerLosesNoLineWhenTheFarAgentIsKilled) {
  Job job = Deploy(2, {{"worker:0", 1, kCount}});
  AgentClient& client = job.clients[0];
  WaitForLog(client, "worker:0", "0\n1\n2\n");
  std::string log;
  const uint64_t stream = Follow(client, "worker:0");
  WaitForText(client, stream, log, "3\n");
  kill(FindRole(1, "tfdist-agent"), SIGKILL);
  WaitForText(client, stream, log, "\n60\n");
  Touch(1, "enough");
  WaitForText(client, stream, log, "done\n");
  ExpectCounted(log);
  WaitUntilNothingIsLeft();
}

TEST_F(FaultsTest, TheJobFailsAndSaysWhyWhenAKeeperIsKilled) {
  Job job = DeployAndKillKeeperOf(1);
  ExpectKeeperLost(job.clients[0].WaitForEvent(job.events, event::kEnded), 1);
  WaitUntilNothingIsLeft();
}

TEST_F(FaultsTest, TheJobFailsAndSaysWhyWhenTheCoordinatorsKeeperIsKilled) {
  const Job job = DeployAndKillKeeperOf(0);
  std::vector<Event> events;
  AskSlot(0, [&](AgentClient& client) {
    events = client.WaitForEvent(client.Send(type::kEvents, kFromTheFirst), event::kEnded);
  });
  ExpectKeeperLost(events, 0);
  WaitUntilNothingIsLeft();
}

TEST_F(FaultsTest, TheJobFailsAndSaysWhyWhenAHolderIsKilled) {
  Job job = Deploy(2, {{"ps:0", 0, kForever, false}, {"worker:0", 1, kForever}});
  WaitForStart(job, "worker:0");
  kill(FindRole(1, "tfdist-holder"), SIGKILL);
  const auto seen = job.clients[0].WaitForEvent(job.events, event::kStopping);
  EXPECT_EQ(FieldsOf(seen.back()).at("result"), "failed");
  EXPECT_EQ(FieldsOf(seen.back()).at("task"), "worker:0");
  EXPECT_THAT(FieldsOf(seen.back()).at("why").get<std::string>(), HasSubstr("holder"));
  WaitUntilNothingIsLeft();
}

// Nobody has seen how the task ended, nor what its holder had not written yet.
TEST_F(FaultsTest, WhatAHolderKilledWithItsKeeperMayHaveLostIsSaid) {
  Job job = Deploy(2, {{"ps:0", 0, kForever, false}, {"worker:0", 1, kForever}});
  WaitForStart(job, "worker:0");
  const pid_t keeper = FindRole(1, "tfdist-keeper");
  kill(keeper, SIGSTOP);  // it sees nothing of the holder's end
  kill(FindRole(1, "tfdist-holder"), SIGKILL);
  kill(keeper, SIGKILL);
  const auto seen = job.clients[0].WaitForEvent(job.events, event::kTask,
                                                {{"task", "worker:0"}, {"state", "exited"}});
  EXPECT_THAT(FieldsOf(seen.back()).at("exit").at("error").get<std::string>(),
              HasSubstr("its last output may be lost"));
  WaitUntilNothingIsLeft();
}

TEST_F(FaultsTest, AnAgentThatIsKilledAfterTheEndOfItsJobStillEnds) {
  Job job = Prepare(1, {{"worker:0", 0, "echo hello"}});
  // A reader that takes nothing keeps the agent there.
  protocol::ReadLog request;
  request.task = "worker:0";
  job.clients[0].Send(type::kReadLog, request);
  Commit(job);
  job.clients[0].WaitForEvent(job.events, event::kEnded);
  kill(FindRole(0, "tfdist-agent"), SIGKILL);
  WaitUntilNothingIsLeft();
}

TEST_F(FaultsTest, AHostThatGoesSilentIsLostAndNamedAsUnreachable) {
  Job job = Deploy(2, {{"ps:0", 0, kForever, false}, {"worker:0", 1, kForever}});
  WaitForStart(job, "worker:0");
  AgentClient& client = job.clients[0];
  const uint64_t stream = Follow(client, "worker:0");
  const pid_t agent = FindRole(1, "tfdist-agent");
  kill(agent, SIGSTOP);
  const auto last = client.Wait([stream](const protocol::Message& m) { return m.id == stream; },
                                "the end of the log");
  EXPECT_EQ(last.type, type::kEnd);
  EXPECT_EQ(last.body.at("why"), "host host1 is lost");
  const auto seen = client.WaitForEvent(job.events, event::kEnded);
  EXPECT_EQ(ResultOf(seen), "failed");
  EXPECT_THAT(FieldsOf(seen.back()).at("unreachable").get<std::vector<int>>(), ElementsAre(1));
  // Thawed, it is swept from its own host, if the coordinator's last word has not ended it.
  kill(agent, SIGCONT);
  AskSlot(1, [](AgentClient& far) { far.Request(type::kSweep); });
  // Nor need it have come back to the coordinator, which waits for that: `down` ends the wait.
  AskSlot(0, [](AgentClient& first) { first.Request(type::kSweep); });
  WaitUntilNothingIsLeft();
}

TEST_F(FaultsTest, ALostHostThatComesBackHearsThatTheJobIsOver) {
  Job job = Deploy(2, {{"ps:0", 0, kForever, false}, {"worker:0", 1, kForever}});
  const int pid = WaitForStart(job, "worker:0");
  const pid_t agent = FindRole(1, "tfdist-agent");
  kill(agent, SIGSTOP);
  const auto seen = job.clients[0].WaitForEvent(job.events, event::kEnded);
  EXPECT_THAT(FieldsOf(seen.back()).at("unreachable").get<std::vector<int>>(), ElementsAre(1));
  EXPECT_EQ(::kill(pid, 0), 0) << "nobody has told it to end";
  kill(agent, SIGCONT);
  WaitUntilNothingIsLeft();  // long before its orphan_timeout
  const auto state = StateOf(ReadJournal(agent::SlotFolder(SlotFolder(0)).journal()).events);
  EXPECT_THAT(state.unreachable, ElementsAre());
  EXPECT_THAT(state.unconfirmed, ElementsAre());
}

// Its first host may come back: `up` of the same name does not end it.
TEST_F(FaultsTest, AHostRefusesAJobWhoseNameRunsOnItWithoutCoordinator) {
  Job job = Deploy(2, {{"ps:0", 0, kForever, false}, {"worker:0", 1, kForever}});
  const int pid = WaitForStart(job, "worker:0");
  const std::string earlier = job_;
  KillAllOf(0);
  job_ += "-next";
  const auto taken = NameTakenOn(1);
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->job(), earlier);
  EXPECT_THAT(
      taken->cause(),
      HasSubstr("a job named 'test' runs, and does not hear its first host, on this host: "));
  EXPECT_EQ(::kill(pid, 0), 0);
  job.clients[1].Request(type::kSweep);
  WaitUntilNothingIsLeft();
}

TEST_F(FaultsTest, AHostRefusesAJobWhoseNameRunsOnItAlready) {
  Job job = Deploy(2, {{"ps:0", 0, kForever, false}, {"worker:0", 1, kForever}});
  const int pid = WaitForStart(job, "worker:0");
  const std::string earlier = job_;
  job_ += "-next";  // whose slot 0 is on another host, where the name is free
  const auto taken = NameTakenOn(1);
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->job(), earlier);
  EXPECT_THAT(taken->cause(), HasSubstr("a job named 'test' runs on this host: " + earlier));
  EXPECT_FALSE(std::filesystem::exists(SlotFolder(1)));
  EXPECT_EQ(::kill(pid, 0), 0);
  job.clients[0].Request(type::kStop, {{"why", "test"}, {"force", true}});
  WaitUntilNothingIsLeft();
}

// An `up` that was killed holds the name up no longer than its agents believe in it.
TEST_F(FaultsTest, TheNextJobOfANameEndsOneThatNobodyCommits) {
  { AgentClient deserted = CreateSlot(1); }
  const auto earlier = SlotFolder(1);
  job_ += "-next";
  AgentClient client = CreateSlot(1);
  EXPECT_FALSE(std::filesystem::exists(earlier));
  client.Request(type::kAbort);
  WaitUntilNothingIsLeft();
}

// Each of them may have a host that the other one needs.
TEST_F(FaultsTest, OfTwoJobsThatAreBeingStartedTheLaterOneGoesAtOnce) {
  const std::string earlier = job_;
  for (const int slot : {0, 1}) {
    job_ = earlier;
    AgentClient first = CreateSlot(slot);
    job_ += "-next";
    const TimePoint begin = SystemClock().Now();
    const auto taken = NameTakenOn(slot);
    ASSERT_TRUE(taken);
    EXPECT_LT(SystemClock().Now() - begin, agent::kLostAfter);
    EXPECT_EQ(taken->job(), earlier);
    EXPECT_FALSE(taken->committed());
    EXPECT_THAT(taken->cause(), HasSubstr("a job named 'test' is being started"));
    first.Request(type::kAbort);
    WaitUntilNothingIsLeft();
  }
}

TEST_F(FaultsTest, AnAgentWithoutCoordinatorEndsItsTasksAndItself) {
  orphan_timeout_ms_ = 5000;
  Job job = Deploy(2, {{"ps:0", 0, kForever, false}, {"worker:0", 1, kForever}});
  WaitForStart(job, "worker:0");
  KillAllOf(0);
  WaitUntilNothingIsLeft();
}

TEST_F(FaultsTest, SweepEndsAHostWithoutItsCoordinator) {
  Job job = Deploy(2, {{"ps:0", 0, kForever, false}, {"worker:0", 1, kForever}});
  WaitForStart(job, "worker:0");
  KillAllOf(0);
  const auto census = job.clients[1].Request(type::kSweep).get<protocol::Census>();
  EXPECT_THAT(census.left, ElementsAre());
  WaitUntilNothingIsLeft();
}

// All that a host has of the job lies on a small disk.
class SmallDiskTest : public FaultsTest {
 protected:
  void SetUp() override {
    FaultsTest::SetUp();
    // The agent itself lies there too: a sanitizer makes it large.
    const auto agent = TestBinDir() / "tfdist-agent";
    const auto size = std::filesystem::file_size(agent) + (24U << 20);
    const std::string options = "size=" + std::to_string(size);
    if (mount("tfdist-test", base_.c_str(), "tmpfs", 0, options.c_str()) != 0) {
      GTEST_SKIP() << "cannot mount a small disk here (not root)";
    }
    mounted_ = true;
    std::filesystem::create_directories(executable_.parent_path());
    std::filesystem::copy_file(agent, executable_);
  }
  void TearDown() override {
    if (mounted_) umount2(base_.c_str(), MNT_DETACH);
    FaultsTest::TearDown();
  }
  void FillDisk() const {
    const std::string ballast(1 << 16, 'b');
    const UniqueFd fd = OpenFile(base_ / "ballast", O_WRONLY | O_CREAT);
    while (write(fd.get(), ballast.data(), ballast.size()) > 0) continue;
  }
  bool mounted_ = false;
};

TEST_F(SmallDiskTest, AJobThatEndsOnAFullDiskHasEndedForThoseWhoAskLater) {
  Job job = Deploy(1, {{"worker:0", 0, "until [ -e enough ]; do sleep 0.02; done"}});
  WaitForStart(job, "worker:0");
  FillDisk();
  Touch(0, "enough");
  EXPECT_EQ(ResultOf(job.clients[0].WaitForEvent(job.events, event::kEnded)), "succeeded");
  job.clients.clear();
  WaitUntilNothingIsLeft();
  AskSlot(0, [&](AgentClient& client) {
    const uint64_t past = client.Send(type::kEvents, {{"from", 1}, {"follow", false}});
    EXPECT_EQ(ResultOf(client.WaitForEvent(past, event::kEnded)), "succeeded");
  });
}

// The disk of a further host is full but for the pages of the next run's `spec`, plus the parameter. The end of the first
// run frees one page.
class FullDiskAtARestart : public FaultsTest, public testing::WithParamInterface<int> {
 protected:
  void TearDown() override {
    for (const auto& path : mounted_) umount2(path.c_str(), MNT_DETACH);
    FaultsTest::TearDown();
  }
  // Moves the files of `folder` to a small disk, and mounts that disk over it.
  void MoveToSmallDisk(const std::filesystem::path& folder) {
    const std::filesystem::path disk = base_ / "disk";
    std::filesystem::create_directory(disk);
    if (mount("tfdist-test", disk.c_str(), "tmpfs", 0, "size=256k") != 0) return;
    mounted_ = {disk, folder};
    std::filesystem::copy(folder, disk, std::filesystem::copy_options::recursive);
    const auto page = static_cast<uintmax_t>(sysconf(_SC_PAGESIZE));
    const uintmax_t spec = std::filesystem::file_size(disk / "worker-0/run-1-1/spec");
    const uintmax_t pages = (spec + page - 1) / page + static_cast<uintmax_t>(GetParam());
    const std::filesystem::path ballast = disk / "ballast";
    const std::string piece(page, 'b');
    const UniqueFd fd = OpenFile(ballast, O_WRONLY | O_CREAT);
    while (write(fd.get(), piece.data(), piece.size()) > 0) continue;
    std::filesystem::resize_file(ballast, std::filesystem::file_size(ballast) - pages * page);
    ASSERT_EQ(mount(disk.c_str(), folder.c_str(), nullptr, MS_BIND, nullptr), 0);
  }
  std::vector<std::filesystem::path> mounted_;
};

// With enough pages the second run has what it needs, and exits with 0.
TEST_P(FullDiskAtARestart, IsToldAndNobodyWaits) {
  const char* script =
      "[ ! -e ran ] || exit 0; until rmdir again 2>/dev/null; do sleep 0.02; done; echo >ran; exit "
      "3";
  const protocol::RestartRule once = {
      .policy = protocol::RestartPolicy::kTask, .limit = 1, .backoff_ms = 20};
  Job job = Deploy(2, {{"ps:0", 0, kForever, false},
                       {.name = "worker:0", .slot = 1, .script = script, .restart = once}});
  WaitForStart(job, "worker:0");
  MoveToSmallDisk(SlotFolder(1) / "tasks");
  Touch(1, "again");
  if (mounted_.empty()) GTEST_SKIP() << "cannot mount a small disk here (not root)";
  const auto seen = job.clients[0].WaitForEvent(job.events, event::kEnded);
  if (ResultOf(seen) == "succeeded") return;
  EXPECT_THAT(Json(seen).dump(), HasSubstr("No space left on device"));
}

INSTANTIATE_TEST_SUITE_P(Pages, FullDiskAtARestart, testing::Range(-1, 4));

// `rm -rf ~/.cache` there, say.
TEST_F(FaultsTest, AJobWhoseFolderIsRemovedOnAFurtherHostEndsAndNobodyWaits) {
  Job job = Deploy(2, {{"ps:0", 0, kForever, false},
                       {"worker:0", 1, "touch on; while [ -e on ]; do sleep 0.02; done"}});
  WaitForStart(job, "worker:0");
  std::filesystem::remove_all(SlotFolder(1));
  const auto seen = job.clients[0].WaitForEvent(job.events, event::kEnded);
  EXPECT_EQ(ResultOf(seen), "failed");
  EXPECT_THAT(Json(seen).dump(), HasSubstr("was removed while it ran"));
}

TEST_F(FaultsTest, AJobWithDamagedSlotFilesGoesOnAndIsEnded) {
  Job job = Deploy(2, {{"ps:0", 0, kForever, false}, {"worker:0", 1, kForever}});
  const std::vector<int> pids = {WaitForStart(job, "ps:0"), WaitForStart(job, "worker:0")};
  for (const int slot : {0, 1}) {
    ReplaceFile(agent::SlotFolder(SlotFolder(slot)).info(), "{\"base\": \"/x", 0600);
    kill(FindRole(slot, "tfdist-agent"), SIGKILL);
  }
  AgentClient client = AttachToAgent(0);
  const uint64_t events = client.Send(type::kEvents, kFromTheFirst);
  const auto seen =
      client.WaitForEvent(events, event::kHost, {{"slot", 0}, {"state", "agent-restarted"}});
  EXPECT_THAT(FieldsOf(seen.back()).at("why").get<std::string>(),
              HasSubstr("slot.json is damaged"));
  for (const int pid : pids) EXPECT_EQ(::kill(pid, 0), 0) << "a task has died";
  client.Request(type::kStop, {{"why", "test"}, {"force", false}});
  const auto rest = client.WaitForEvent(events, event::kEnded);
  EXPECT_EQ(FieldsOf(rest.back()).at("unreachable"), Json::array());
  WaitUntilNothingIsLeft();
}

// Nothing tells the new agents any more what their tasks are; those that run are looked after.
TEST_F(FaultsTest, AJobWithDamagedDescriptionsGoesOnAndIsEnded) {
  Job job = Deploy(2, {{"ps:0", 0, kForever, false},
                       {"worker:0", 1, "until [ -e fail ]; do sleep 0.02; done; exit 7"}});
  const std::vector<int> pids = {WaitForStart(job, "ps:0"), WaitForStart(job, "worker:0")};
  for (const int slot : {0, 1}) {
    ReplaceFile(agent::SlotFolder(SlotFolder(slot)).description(), "junk", 0600);
    kill(FindRole(slot, "tfdist-agent"), SIGKILL);
  }
  protocol::Hello hello;
  AgentClient client = AttachToAgent(0, &hello);
  EXPECT_THAT(hello.damage.value_or(""), HasSubstr("description is damaged"));
  const uint64_t events = client.Send(type::kEvents, kFromTheFirst);
  const auto seen =
      client.WaitForEvent(events, event::kHost, {{"slot", 0}, {"state", "agent-restarted"}});
  EXPECT_THAT(FieldsOf(seen.back()).at("why").get<std::string>(),
              HasSubstr("description is damaged"));
  for (const int pid : pids) EXPECT_EQ(::kill(pid, 0), 0) << "a task has died";
  Touch(1, "fail");
  const auto rest = client.WaitForEvent(events, event::kEnded);
  EXPECT_EQ(ResultOf(rest), "failed");
  EXPECT_EQ(FieldsOf(rest.back()).at("unreachable"), Json::array());
  WaitUntilNothingIsLeft();
}

// It cannot find the coordinator any more; the command can find it.
TEST_F(FaultsTest, AnAgentWithADamagedAddressOfTheCoordinatorIsSwept) {
  Job job = Deploy(2, {{"ps:0", 0, kForever, false}, {"worker:0", 1, kForever}});
  WaitForStart(job, "worker:0");
  ReplaceFile(agent::SlotFolder(SlotFolder(1)).coordinator(), "{\"address\": \"a\"}", 0600);
  kill(FindRole(1, "tfdist-agent"), SIGKILL);
  {
    protocol::Hello hello;
    AgentClient client = AttachToAgent(1, &hello);
    EXPECT_THAT(hello.damage.value_or(""), HasSubstr("coordinator.json is damaged"));
    EXPECT_THAT(client.Request(type::kSweep).get<protocol::Census>().left, ElementsAre());
  }
  job.clients[0].Request(type::kStop, {{"why", "test"}, {"force", true}});
  job.clients[0].WaitForEvent(job.events, event::kEnded);
  job.clients[0].Request(type::kSweep);
  WaitUntilNothingIsLeft();
}

// Its members are strangers to it: they are lost, and the job ends with that.
TEST_F(FaultsTest, ACoordinatorWithADamagedListOfKeysEndsTheJob) {
  Job job = Deploy(2, {{"ps:0", 0, kForever, false}, {"worker:0", 1, kForever}});
  WaitForStart(job, "worker:0");
  ReplaceFile(agent::SlotFolder(SlotFolder(0)).peers(), "[\"no key\"]", 0600);
  kill(FindRole(0, "tfdist-agent"), SIGKILL);
  AgentClient client = AttachToAgent(0);
  const uint64_t events = client.Send(type::kEvents, kFromTheFirst);
  const auto seen =
      client.WaitForEvent(events, event::kHost, {{"slot", 0}, {"state", "agent-restarted"}});
  EXPECT_THAT(FieldsOf(seen.back()).at("why").get<std::string>(),
              HasSubstr("peers.json is damaged"));
  const auto rest = client.WaitForEvent(events, event::kEnded);
  EXPECT_EQ(FieldsOf(rest.back()).at("unreachable"), Json::array({1}));
  EXPECT_THAT(job.clients[1].Request(type::kSweep).get<protocol::Census>().left, ElementsAre());
  client.Request(type::kSweep);
  WaitUntilNothingIsLeft();
}

// A stranger to its coordinator from then on: it is lost, and the command ends what it runs.
TEST_F(FaultsTest, AnAgentWithADamagedKeyIsSetAsideAndSwept) {
  Job job = Deploy(2, {{"ps:0", 0, kForever, false}, {"worker:0", 1, kForever}});
  const int pid = WaitForStart(job, "worker:0");
  ReplaceFile(agent::SlotFolder(SlotFolder(1)).key(), "junk", 0600);
  kill(FindRole(1, "tfdist-agent"), SIGKILL);
  protocol::Hello hello;
  {
    AgentClient client = AttachToAgent(1, &hello);
    EXPECT_THAT(hello.damage.value_or(""), HasSubstr("key is missing or damaged"));
    EXPECT_EQ(::kill(pid, 0), 0) << "a task has died";
    EXPECT_THAT(client.Request(type::kSweep).get<protocol::Census>().left, ElementsAre());
  }
  job.clients[0].Request(type::kSweep);
  WaitUntilNothingIsLeft();
}

// Slot 0 is gone for good: the others end by themselves, and say why to whoever asks later.
TEST_F(FaultsTest, WhatEndedWithoutItsCoordinatorSaysSo) {
  orphan_timeout_ms_ = 3000;
  Job job = Deploy(2, {{"worker:0", 0, kForever}, {"worker:1", 1, kForever}});
  WaitForStart(job, "worker:1");
  job.clients.clear();
  KillAllOf(0);
  WaitUntilNothingIsLeft();
  AgentClient client = Attach(1);
  EXPECT_THAT(client.WaitForHello(protocol::Serving::kFolder).orphaned.value_or(""),
              MatchesRegex("nothing was heard from the coordinator for [0-9]+ s: its tasks were "
                           "ended at 20.*Z"));
  client.Request(type::kSweep);
  for (const char* secret : {"key", "secret", "description"}) {
    EXPECT_FALSE(std::filesystem::exists(SlotFolder(1) / secret)) << secret;
  }
}

// Byte-exact, though the agent that copies is killed meanwhile.
TEST_F(FaultsTest, LogsAreInTheSharedFolderWhileTasksRun) {
  shared_ = base_ / "shared";
  std::filesystem::create_directory(shared_);
  Job job = Deploy(1, {{"worker:0", 0, kCount}});
  const auto copy = std::filesystem::path(shared_) / job_ / "worker-0.log";
  const auto text = [&] { return ReadFileIfExists(copy, 1 << 20).value_or(""); };
  WaitUntil([&] { return text().starts_with("0\n1\n2\n"); }, "the copy to begin");
  kill(FindRole(0, "tfdist-agent"), SIGKILL);
  const size_t before = text().size();
  WaitUntil([&] { return text().size() > before + 40; }, "the next agent to go on");
  AgentClient client = AttachToAgent(0);
  const uint64_t log = client.OpenLog("worker:0", true);
  Touch(0, "enough");
  const std::string all = client.ReadToEnd(log);
  client.StopReading();
  WaitUntilNothingIsLeft();
  ExpectCounted(all);
  EXPECT_EQ(text(), all);
}

TEST_F(FaultsTest, TheFolderOfADeadSlotWithADamagedSlotFileIsSwept) {
  Job job = Deploy(1, {{"worker:0", 0, "setsid sleep infinity & " + kForever}});
  WaitForStart(job, "worker:0");
  std::filesystem::remove(agent::SlotFolder(SlotFolder(0)).info());
  KillAllOf(0);
  {
    AgentClient client = Attach(0);
    const auto hello = client.WaitForHello(protocol::Serving::kFolder);
    EXPECT_EQ(hello.job, job_);
    EXPECT_THAT(hello.damage.value_or(""), HasSubstr("slot.json is missing"));
    client.Request(type::kSweep);
  }
  WaitUntilNothingIsLeft();
}

TEST_F(FaultsTest, AFolderThatWasNeverCommittedIsRolledBackWithoutItsAgent) {
  const AgentClient started = CreateSlot(0);
  KillAllOf(0);
  AgentClient client = Attach(0);
  client.WaitForHello(protocol::Serving::kFolder);
  EXPECT_EQ(client.Request(type::kAbort).value("left", "?"), "");
  EXPECT_FALSE(std::filesystem::exists(SlotFolder(0)));
  WaitUntilNothingIsLeft();
}

TEST_F(FaultsTest, AJobThatHasBegunIsNotRolledBack) {
  Job job = Deploy(1, {{"worker:0", 0, kForever}});
  WaitForStart(job, "worker:0");
  KillAllOf(0);
  AgentClient client = Attach(0);
  client.WaitForHello(protocol::Serving::kFolder);
  EXPECT_THROW(client.Request(type::kAbort), Error);
  client.Request(type::kSweep);
  EXPECT_TRUE(std::filesystem::exists(SlotFolder(0) / "slot.json"));
  WaitUntilNothingIsLeft();
}

TEST_F(FaultsTest, TheFolderOfADeadSlotStillAnswersAndIsSwept) {
  Job job = Deploy(1, {{"worker:0", 0, "echo hello; setsid sleep infinity & " + kForever}});
  WaitForLog(job.clients[0], "worker:0", "hello\n");
  WaitForStart(job, "worker:0");
  // Keeper and holder at once: what the task has started may survive.
  KillAllOf(0);
  {
    AgentClient client = Attach(0);
    client.WaitForHello(protocol::Serving::kFolder);
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
