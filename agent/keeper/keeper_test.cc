#include "agent/keeper/keeper.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <tuple>

#include "agent/keeper/agent_restarts.h"
#include "agent/keeper/testing/slot_fixture.h"
#include "agent/slot/slot_census.h"
#include "base/error.h"
#include "base/file.h"
#include "base/testing/file_size_limit.h"

namespace tfdist::agent {
namespace {

using namespace std::chrono_literals;

class KeeperTest : public SlotTest {
 protected:
  // Keeper, agent and holder at once; none of them has the time to act.
  void KillAllOfOurs(const RunPids& pids) {
    for (const ProcessInfo& process : Left()) kill(process.id.pid, SIGSTOP);
    for (const pid_t pid : {keeper(), Births().back().pid, pids.holder.pid}) kill(pid, SIGKILL);
  }
  // A task with a process that has neither its session nor its environment, and its pipes: the holder waits for these.
  RunPids StartRunThatEscapes() {
    StartRun("a:0",
             {"/bin/sh", "-c",
              "env -i /usr/bin/setsid -f /bin/sleep infinity; echo ready; exec tail -f /dev/null"});
    WaitForLog("a:0", "ready");
    WaitFor([] { return Sleeping() == 1; }, kLong, "the process to have its name");
    return WaitForPids("a:0");
  }
  static size_t Sleeping() {
    return static_cast<size_t>(std::ranges::count(Left(), "sleep", &ProcessInfo::comm));
  }
  // Which of them the census names. A daemon of a test beside this one has the same cgroups, and is as unknown.
  static std::vector<pid_t> Unknown(const protocol::Census& census,
                                    const std::vector<ProcessInfo>& processes) {
    std::vector<pid_t> unknown;
    for (const ProcessInfo& process : processes) {
      const std::string why =
          Describe(process) + " may be of a-0, run-1-1, whose holder and keeper were both killed";
      if (std::ranges::find(census.unknown, why) != census.unknown.end()) {
        unknown.push_back(process.id.pid);
      }
    }
    return unknown;
  }
};

std::vector<std::string> OfAnotherAccount(const std::string& script) {
  return {"/usr/bin/setpriv", "--reuid=12345", "--clear-groups", "/bin/sh", "-c", script};
}

TEST_F(KeeperTest, StartsAKilledAgentAgainAndNoTaskNotices) {
  StartKeeper();
  StartRun("a:0", Helper("daemon-and-sleep"));
  WaitForLog("a:0", "left a daemon");
  const RunPids before = WaitForPids("a:0");
  for (int restarts = 1; restarts <= 3; ++restarts) {
    kill(Births().back().pid, SIGKILL);
    const Birth birth = WaitForAgent(restarts + 1);
    EXPECT_EQ(birth.restarts, restarts);
    EXPECT_FALSE(birth.keeper_lost);
  }
  EXPECT_TRUE(IsRunning(before.task));
  EXPECT_TRUE(IsRunning(before.holder));
  Order("kill a-0 run-1-1");  // by the new agent
  EXPECT_EQ(WaitForDone("a:0").signal, SIGKILL);
  WaitForNote(NoteKind::kHolderDone, "a:0");
}

// `ulimit -f`: at the limit the log takes no more lines.
TEST_F(KeeperTest, ALimitOnTheSizeOfFilesCostsTheLogAndNotTheKeeper) {
  constexpr rlim_t kLimitBytes = 16 << 10;
  ReplaceFile(folder_ / "agent.log", std::string(kLimitBytes, '\n'), 0600);
  {
    const FileSizeLimitForTest limit(kLimitBytes);
    StartKeeper();
  }
  StartRun("a:0", {"true"});
  EXPECT_EQ(WaitForDone("a:0").error, "");
}

// `ulimit -t`: the soft limit has come, and tells so each second.
TEST_F(KeeperTest, ALimitOnCpuTimeEndsTheTaskAndNotTheKeeperOrTheHolder) {
  StartKeeper();
  StartRun("a:0", {"/bin/sh", "-c", "sleep 0.5; kill -XCPU $$"});
  const RunPids pids = WaitForPids("a:0");
  for (const pid_t pid : {keeper(), pids.holder.pid}) ASSERT_EQ(kill(pid, SIGXCPU), 0);
  const protocol::TaskExit exit = WaitForDone("a:0");
  EXPECT_EQ(exit.error, "");
  EXPECT_EQ(exit.signal, SIGXCPU);
}

// One whose soft limit is the hard one gets SIGKILL.
TEST_F(KeeperTest, ATaskThatTheKernelKillsForItsCpuTimeIsToldFromOneThatWasKilled) {
  StartKeeper();
  StartRun("a:0", {"/bin/sh", "-c", "ulimit -t 2; while :; do :; done"});
  StartRun("a:1", {"/bin/sh", "-c", "ulimit -t 2; kill -KILL $$"});
  const protocol::TaskExit exit = WaitForDone("a:0");
  EXPECT_EQ(exit.signal, SIGKILL);
  EXPECT_TRUE(exit.cpu_time_over);
  EXPECT_FALSE(WaitForDone("a:1").cpu_time_over);
}

constexpr const char* kHolderKilled =
    "its holder was killed by signal 9; its last output may be lost, at most 192 KiB";

// The task writes until its pipe is full; each line's number is on the disk once it is in the pipe.
TEST_F(KeeperTest, AKilledHolderCostsNoMoreOutputThanThePipesHold) {
  StartKeeper();
  const auto count = folder_ / "count";
  StartRun("a:0", {"/bin/sh", "-c",
                   "exec 3>" + count.string() +
                       "; i=1; while printf '%0999d\n' $i; do echo $i >&3; i=$((i+1)); done"});
  WaitForLog("a:0", std::string(990, '0'));
  const RunPids pids = WaitForPids("a:0");
  kill(pids.holder.pid, SIGSTOP);
  size_t written = 0;
  const auto lost = [&] {
    const std::string numbers = ReadFileIfExists(count, 1 << 26).value_or("");
    written = 1000 * static_cast<size_t>(std::ranges::count(numbers, '\n'));
    return written - std::min(written, LogText("a:0").size());
  };
  WaitFor([&] { return lost() >= 60'000; }, kLong, "a full pipe");
  kill(pids.holder.pid, SIGKILL);
  EXPECT_EQ(WaitForExit("a:0").error, kHolderKilled);
  WaitForNote(NoteKind::kHolderLost, "a:0");
  EXPECT_GE(lost(), 60'000U) << "otherwise say so no more";
  EXPECT_LE(lost(), 192U * 1024);
}

TEST_F(KeeperTest, KillsWhatAKilledHolderLeaves) {
  StartKeeper();
  StartRun("a:0", Helper("daemon-and-sleep"));
  WaitForLog("a:0", "left a daemon");
  const RunPids pids = WaitForPids("a:0");
  kill(pids.holder.pid, SIGKILL);
  EXPECT_EQ(WaitForExit("a:0").error, kHolderKilled);
  WaitForNote(NoteKind::kHolderLost, "a:0");
  EXPECT_EQ(Left().size(), 2U);  // keeper and agent
  StartRun("a:0", {"true"}, 2);  // the task may be started again
  EXPECT_EQ(WaitForDone("a:0", 2).error, "");
}

// The one thing that no single fault does. Its daemon shows neither the job's environment nor a session
// or a parent of the task.
TEST_F(KeeperTest, WhatKeeperAndHolderLeaveWhenTheyAreKilledTogetherIsNamed) {
  StartKeeper();
  StartRun("a:0", Helper("daemon-and-sleep"));
  WaitForLog("a:0", "left a daemon");
  const RunPids pids = WaitForPids("a:0");
  SlotInfo info;
  info.job = "job-" + folder_.filename().string();
  const SlotFolder slot(folder_);
  EXPECT_TRUE(FindLostRuns(slot).empty()) << "its holder runs";
  KillAllOfOurs(pids);
  WaitFor([&] { return Left().size() == 1; }, kLong, "only the daemon to be left");
  const ProcessInfo daemon = Left().front();
  kill(daemon.id.pid, SIGCONT);

  // A daemon of somebody else, which was started meanwhile.
  const pid_t stranger = fork();
  if (stranger == 0) {
    setsid();
    clearenv();  // NOLINT(concurrency-mt-unsafe): a child with one thread
    execl("/bin/sleep", "sleep", "infinity", nullptr);
    _exit(1);
  }
  WaitFor(
      [&] { return CgroupsOf(stranger) == pids.cgroups && ReadProcess(stranger)->comm == "sleep"; },
      kLong, "the stranger to execute");

  ASSERT_EQ(FindLostRuns(slot).size(), 1U);
  const auto census = EndSlotProcesses(slot, info, {}, SystemClock().Now() + 10s);
  EXPECT_EQ(census.left, std::vector<std::string>());
  const ProcessInfo of_another = ReadProcess(stranger).value();
  EXPECT_EQ(Unknown(census, {daemon, of_another}), std::vector{daemon.id.pid});
  EXPECT_TRUE(IsRunning(daemon.id)) << "it may be somebody else's";
  kill(daemon.id.pid, SIGKILL);
  kill(stranger, SIGKILL);
  WaitUntilNothingIsLeft();
  EXPECT_TRUE(
      Unknown(EndSlotProcesses(slot, info, {}, SystemClock().Now() + 10s), {daemon}).empty());
}

// `exit` tells that the task has ended, and not that its descendants have.
TEST_F(KeeperTest, WhatAHolderLeavesThatIsKilledAfterItsTasksEndIsNamed) {
  StartKeeper();
  const RunPids pids = StartRunThatEscapes();
  kill(keeper(), SIGKILL);  // its holder ends the task
  EXPECT_EQ(WaitForExit("a:0").signal, SIGTERM);
  kill(pids.holder.pid, SIGKILL);
  WaitForAgent(2);
  WaitFor([&] { return Left().size() == 3; }, kLong, "keeper, agent and the process to be left");
  const std::vector<ProcessInfo> left = Left();
  const ProcessInfo process = *std::ranges::find(left, "sleep", &ProcessInfo::comm);
  const SlotFolder slot(folder_);
  EXPECT_EQ(FindLostRuns(slot).size(), 1U);
  EXPECT_TRUE(WhatMayBeLeft(slot, SystemClock().Now() + 10s)) << "else `clean` removes all notes";
  SlotInfo info;
  info.job = "job-" + folder_.filename().string();
  EXPECT_EQ(Unknown(EndSlotProcesses(slot, info, {}, SystemClock().Now() + 10s), {process}),
            std::vector{process.id.pid});
  kill(process.id.pid, SIGKILL);
  Order("exit 40");
  WaitUntilNothingIsLeft();
  EXPECT_TRUE(
      Unknown(EndSlotProcesses(slot, info, {}, SystemClock().Now() + 10s), {process}).empty());
}

TEST_F(KeeperTest, WhatSuchAHolderLeavesItsKeeperEndsAndNotesThat) {
  StartKeeper();
  const RunPids pids = StartRunThatEscapes();
  kill(pids.task.pid, SIGTERM);
  EXPECT_EQ(WaitForExit("a:0").signal, SIGTERM);
  kill(pids.holder.pid, SIGKILL);
  WaitForNote(NoteKind::kHolderLost, "a:0");
  EXPECT_EQ(Left().size(), 2U);  // keeper and agent
  EXPECT_EQ(State("a:0").exit->signal, SIGTERM) << "the task's own end";
  EXPECT_TRUE(FindLostRuns(SlotFolder(folder_)).empty());
}

// Without the job's environment, and its leader gone; the session's number is still the task's.
TEST_F(KeeperTest, WhatIsInTheSessionOfATaskWhoseHolderAndKeeperWereKilledIsEnded) {
  StartKeeper();
  StartRun("a:0", {"/bin/sh", "-c", "env -i sleep infinity & echo ready; wait"});
  WaitForLog("a:0", "ready");
  const RunPids pids = WaitForPids("a:0");
  KillAllOfOurs(pids);
  WaitFor([&] { return Left().size() == 1; }, kLong, "only the child of the task to be left");
  const std::vector<ProcessInfo> left = Left();
  SlotInfo info;
  info.job = "job-" + folder_.filename().string();
  const auto census = EndSlotProcesses(SlotFolder(folder_), info, {}, SystemClock().Now() + 10s);
  EXPECT_EQ(census.killed.size(), 1U);
  EXPECT_TRUE(census.left.empty() && Unknown(census, left).empty());
  WaitUntilNothingIsLeft();
}

// su-exec, gosu: a change of the account takes away the signal by which the task dies with its holder, and what its
// environment says is not believed any more. The run's own note says whose it is.
TEST_F(KeeperTest, ATaskThatHasChangedItsAccountIsEndedAfterItsHolderAndKeeper) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, which may change its account";
  StartKeeper();
  StartRun("a:0", OfAnotherAccount("/bin/sleep infinity & exec /bin/sleep infinity"));
  const RunPids pids = WaitForPids("a:0");
  WaitFor([] { return Sleeping() == 2; }, kLong, "the task and its child");
  KillAllOfOurs(pids);
  WaitFor([&] { return Left().size() == 2; }, kLong, "only the task and its child to be left");
  const std::vector<ProcessInfo> left = Left();
  const SlotFolder slot(folder_);
  EXPECT_TRUE(HasProcesses(slot));
  SlotInfo info;
  info.job = "job-" + folder_.filename().string();
  const auto census = EndSlotProcesses(slot, info, {}, SystemClock().Now() + 10s);
  EXPECT_EQ(census.killed.size(), 2U);
  EXPECT_TRUE(census.left.empty() && Unknown(census, left).empty());
  EXPECT_FALSE(HasProcesses(slot));
  WaitUntilNothingIsLeft();
}

// Its leader is gone, and the number of a session may be another account's by now.
TEST_F(KeeperTest, WhatAnotherAccountHasInTheSessionOfATaskThatIsGoneIsNamed) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, which may change its account";
  StartKeeper();
  StartRun("a:0", {"/bin/sh", "-c",
                   "/usr/bin/setpriv --reuid=12345 --clear-groups /bin/sleep infinity & wait"});
  const RunPids pids = WaitForPids("a:0");
  WaitFor([] { return Sleeping() == 1; }, kLong, "the task's child");
  KillAllOfOurs(pids);
  WaitFor([&] { return Left().size() == 1; }, kLong, "only the child of the task to be left");
  const auto is_reaped = [&] {
    while (waitpid(-1, nullptr, WNOHANG) > 0) continue;
    return !ReadProcess(pids.task.pid);
  };
  WaitFor(is_reaped, kLong, "the task to be no zombie any more");
  const ProcessInfo child = Left().front();
  SlotInfo info;
  info.job = "job-" + folder_.filename().string();
  const auto census = EndSlotProcesses(SlotFolder(folder_), info, {}, SystemClock().Now() + 10s);
  EXPECT_EQ(Unknown(census, {child}), std::vector{child.id.pid});
  EXPECT_TRUE(census.left.empty() && census.killed.empty());
}

// Its environment is another account's, and so is not believed; where it came from is seen by other marks.
TEST_F(KeeperTest, WhatHasLeftItsSessionAndItsAccountIsNamed) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, which may change its account";
  StartKeeper();
  StartRun("a:0", {"/bin/sh", "-c",
                   "/usr/bin/setpriv --reuid=12345 --clear-groups /usr/bin/setsid -f /bin/sleep "
                   "infinity; exec tail -f /dev/null"});
  const RunPids pids = WaitForPids("a:0");
  WaitFor([] { return Sleeping() == 1; }, kLong, "the process to have its name");
  KillAllOfOurs(pids);
  WaitFor([&] { return Left().size() == 1; }, kLong, "only that process to be left");
  const ProcessInfo process = Left().front();
  SlotInfo info;
  info.job = "job-" + folder_.filename().string();
  const auto census = EndSlotProcesses(SlotFolder(folder_), info, {}, SystemClock().Now() + 10s);
  EXPECT_EQ(Unknown(census, {process}), std::vector{process.id.pid});
}

// All processes of that boot are gone: nothing is in doubt.
TEST_F(KeeperTest, ARunOfAnotherBootIsNotLost) {
  RunPids pids{.holder = {.pid = 1, .start_time = 1},
               .task = {.pid = 1, .start_time = 1},
               .boot_id = "another boot"};
  const std::filesystem::path run = TaskFolder("a:0") / RunFolderName(1, 1);
  std::filesystem::create_directories(run);
  WriteRunPids(run, pids);
  EXPECT_TRUE(FindLostRuns(SlotFolder(folder_)).empty());
  pids.boot_id = BootId();
  WriteRunPids(run, pids);
  EXPECT_EQ(FindLostRuns(SlotFolder(folder_)).size(), 1U);
  WriteRunExit(run, {});
  EXPECT_TRUE(FindLostRuns(SlotFolder(folder_)).empty());
}

TEST_F(KeeperTest, AKilledKeepersHoldersEndTheirTasksAndTheAgentTakesItsPlace) {
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_GE(listener, 0);
  StartKeeper(listener, listener);
  close(listener);
  StartRun("a:0", Helper("daemon-and-sleep"));
  StartRun("a:1", {"/bin/sh", "-c",
                   "exec 2>/dev/null; trap 'echo told; exit 4' TERM; echo ready;"
                   " sleep infinity & wait"});
  WaitForLog("a:0", "left a daemon");
  WaitForLog("a:1", "ready");
  const Birth first = WaitForAgent(1);
  EXPECT_TRUE(first.has_listener && first.has_name_lock);

  kill(keeper(), SIGKILL);
  const Birth second = WaitForAgent(2);
  EXPECT_TRUE(second.keeper_lost);
  EXPECT_TRUE(second.has_listener && second.has_name_lock);
  const auto exit = WaitForDone("a:1");
  EXPECT_EQ(exit.code, 4);
  EXPECT_TRUE(exit.by_us);
  EXPECT_EQ(LogText("a:1"), "ready\ntold\n");
  EXPECT_EQ(WaitForDone("a:0").signal, SIGTERM);
  WaitForNote(NoteKind::kExited, "a:1");  // through the old pipe, to the new agent
  // The agent's process is the keeper now, and as good as any.
  EXPECT_TRUE(IsRunning(ReadProcess(first.pid).value().id));
  StartRun("a:0", {"true"}, 2);
  EXPECT_EQ(WaitForDone("a:0", 2).error, "");
  kill(second.pid, SIGKILL);
  EXPECT_FALSE(WaitForAgent(3).keeper_lost);
  Order("exit 40");
  WaitUntilNothingIsLeft();
}

// The promise "no orphans" of README, with tasks that do their worst; at moments from the middle
// of the start to long after it.
enum class Victim { kKeeper, kAgent, kHolder, kTask };

class AnyVictimTest : public SlotTest, public testing::WithParamInterface<std::tuple<Victim, int>> {
 protected:
  pid_t Find(Victim victim) {
    if (victim == Victim::kKeeper) return keeper();
    if (victim == Victim::kAgent) return WaitForAgent(1).pid;
    const RunPids pids = WaitForPids("a:0");
    return victim == Victim::kHolder ? pids.holder.pid : pids.task.pid;
  }
};

TEST_P(AnyVictimTest, NothingIsLeftAfterTheDeathOfAnyOne) {
  const auto [victim, delay_ms] = GetParam();
  StartKeeper();
  StartRun("a:0", Helper("daemon-and-sleep"));
  StartRun("a:1", Helper("daemon-and-sleep"));
  const pid_t pid = Find(victim);
  poll(nullptr, 0, delay_ms);
  kill(pid, SIGKILL);
  const bool new_agent = victim == Victim::kKeeper || victim == Victim::kAgent;
  WaitForAgent(new_agent ? 2 : 1);
  if (!new_agent) {
    const auto exit = WaitForExit("a:0");
    EXPECT_TRUE(exit.signal == SIGKILL || !exit.error.empty());
  }
  Order("exit 40");
  WaitUntilNothingIsLeft();
}

INSTANTIATE_TEST_SUITE_P(EachAtSeveralMoments, AnyVictimTest,
                         testing::Combine(testing::Values(Victim::kKeeper, Victim::kAgent,
                                                          Victim::kHolder, Victim::kTask),
                                          testing::Values(0, 2, 5, 10, 20, 50)));

TEST_F(KeeperTest, EndsWhenTheAgentSaysThatTheJobIsOver) {
  StartKeeper();
  StartRun("a:0", Helper("daemon-and-sleep"));
  WaitForLog("a:0", "left a daemon");
  Order("exit 40");
  EXPECT_EQ(WaitForKeeperEnd(), 0);
  EXPECT_TRUE(Left().empty());
  EXPECT_EQ(State("a:0").exit.value().signal, SIGKILL);
}

TEST_F(KeeperTest, QuitEndsTasksGracefullyThenTheAgentThenItself) {
  StartKeeper();
  StartRun("a:0", {"/bin/sh", "-c",
                   "exec 2>/dev/null; trap 'echo told; exit 4' TERM; echo ready;"
                   " sleep infinity & wait"});
  WaitForLog("a:0", "ready");
  Order("quit 60000");
  EXPECT_EQ(WaitForKeeperEnd(), 0);
  EXPECT_TRUE(Left().empty());
  EXPECT_EQ(State("a:0").exit.value().code, 4);
}

TEST_F(KeeperTest, QuitDoesNotWaitBeyondItsLimit) {
  StartKeeper();
  StartRun("a:0", {"/bin/sh", "-c", "trap '' TERM; echo ready; exec sleep infinity"}, 1,
           [](RunSpec& spec) { spec.grace_ms = 1'000'000; });
  WaitForLog("a:0", "ready");
  Order("quit 100");
  EXPECT_EQ(WaitForKeeperEnd(), 0);
  EXPECT_TRUE(Left().empty());
  EXPECT_EQ(State("a:0").exit.value().error, kHolderKilled);
}

TEST_F(KeeperTest, ASignalToTheKeeperEndsItAsQuitDoes) {
  StartKeeper();
  StartRun("a:0", {"sleep", "infinity"});
  WaitForNote(NoteKind::kStarted, "a:0");
  kill(keeper(), SIGTERM);
  EXPECT_EQ(WaitForKeeperEnd(), 0);
  EXPECT_TRUE(Left().empty());
  EXPECT_EQ(State("a:0").exit.value().signal, SIGTERM);
}

TEST_F(KeeperTest, ARunIsStartedOnceHoweverOftenItIsOrdered) {
  StartKeeper();
  StartRun("a:0", {"/bin/sh", "-c", "echo once; sleep infinity"});
  Order("start a-0 run-1-1\nstart a-0 run-1-1");
  WaitForLog("a:0", "once");
  kill(Births().back().pid, SIGKILL);
  WaitForAgent(2);
  Order("start a-0 run-1-1");
  Order("kill a-0 run-1-1");
  WaitForDone("a:0");
  Order("start a-0 run-1-1");
  StartRun("a:1", {"true"});
  WaitForDone("a:1");
  EXPECT_EQ(LogText("a:0"), "once\n");
}

TEST_F(KeeperTest, RefusesAnotherRunOfATaskWhileAHolderStillWorks) {
  StartKeeper();
  StartRun("a:0", {"sleep", "infinity"}, 1);
  WaitForNote(NoteKind::kStarted, "a:0");
  StartRun("a:0", {"true"}, 2);
  WaitForNote(NoteKind::kRefused, "a:0");
  EXPECT_FALSE(State("a:0", 2).exit);
  Order("kill a-0 run-1-1");
  WaitForNote(NoteKind::kHolderDone, "a:0");
  Order("start a-0 run-1-2");
  EXPECT_EQ(WaitForDone("a:0", 2).error, "");
}

TEST_F(KeeperTest, StartsTheNextRunAlthoughTheLastHolderIsNotReapedYet) {
  StartKeeper();
  StartRun("a:0", {"sleep", "infinity"}, 1);
  const RunPids pids = WaitForPids("a:0");
  kill(keeper(), SIGSTOP);
  kill(pids.holder.pid, SIGQUIT);
  WaitForDone("a:0");
  StartRun("a:0", {"true"}, 2);
  WaitUntilOrdered("start a-0 run-1-2");
  kill(keeper(), SIGCONT);
  EXPECT_EQ(WaitForDone("a:0", 2).error, "");
}

TEST_F(KeeperTest, PassesOverNamesThatLeaveTheSlotsFolder) {
  StartKeeper();
  Order("start .. run-1-1\nstart a/../../b run-1-1\nstart a-0 ../x\nstop . .");
  StartRun("a:0", {"true"});
  EXPECT_EQ(WaitForDone("a:0").error, "");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run-1-1"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "tasks" / "x"));
}

TEST_F(KeeperTest, BeginsAgentLogAnewBeyondItsLimit) {
  const std::filesystem::path log = folder_ / "agent.log";
  { const UniqueFd fd = OpenFile(log, O_WRONLY | O_CREAT); }
  std::filesystem::resize_file(log, 5 << 20);
  StartKeeper();
  WaitFor([&] { return std::filesystem::file_size(log) < 1000; }, kLong, "agent.log to be cut");
}

TEST_F(KeeperTest, CannotBeExecutedWhereThereIsNoAgent) {
  EXPECT_THROW(ExecKeeper(folder_ / "none", HostSettings::Capture(), -1, -1), Error);
}

TEST(AgentRestarts, AtOnceThenLaterAndLaterAndAtOnceAgainAfterASoundOne) {
  TimePoint now{};
  AgentRestarts restarts(now);
  EXPECT_EQ(restarts.due(), now);
  const auto delay_after = [&](std::chrono::milliseconds lived) {
    restarts.OnStart(now);
    EXPECT_FALSE(restarts.due());
    now += lived;
    restarts.OnEnd(now);
    return restarts.due().value() - now;
  };
  EXPECT_EQ(delay_after(1ms), 0ms);
  EXPECT_EQ(delay_after(1ms), 100ms);
  EXPECT_EQ(delay_after(1ms), 200ms);
  for (int i = 0; i < 10; ++i) delay_after(1ms);
  EXPECT_EQ(delay_after(1ms), 5000ms);
  EXPECT_EQ(delay_after(10s), 0ms);
  EXPECT_EQ(delay_after(1ms), 100ms);
}

TEST(AgentRestarts, AreHopelessWhenNoneStaysAlive) {
  TimePoint now{};
  AgentRestarts restarts(now);
  restarts.OnStart(now);
  restarts.OnEnd(now);
  EXPECT_FALSE(restarts.Hopeless(now + 299s));
  EXPECT_TRUE(restarts.Hopeless(now + 300s));
}

TEST(Handover, ComesBackAsItWas) {
  const Handover handover{.slot_folder = "/a b/h0",
                          .host = {.umask = 027, .core_limit = ~0ULL},
                          .has_listener = true,
                          .agent_restarts = 3,
                          .keeper_lost = true};
  const Handover back = Handover::Parse(handover.ToArguments());
  EXPECT_EQ(back.slot_folder, handover.slot_folder);
  EXPECT_EQ(back.host, handover.host);
  EXPECT_TRUE(back.has_listener && !back.has_name_lock && back.keeper_lost);
  EXPECT_EQ(back.agent_restarts, 3);
  EXPECT_THROW(Handover::Parse({}), Error);
  EXPECT_THROW(Handover::Parse({"/x", "1", "1", "many", "0", "18", "0"}), Error);
}

TEST(Note, AFullPipeDropsNotesAndNeverBlocks) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
  size_t taken = 0;
  while (SendNote(ends[1], {.kind = NoteKind::kExited, .task = "worker-0", .run = "run-1-1"})) {
    ++taken;
  }
  EXPECT_GT(taken, 100U);
  const std::vector<Note> notes = ReceiveNotes(ends[0]);
  EXPECT_EQ(notes.size(), taken);
  EXPECT_EQ(notes.front().task, "worker-0");
  EXPECT_EQ(notes.front().run, "run-1-1");
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
}  // namespace tfdist::agent
