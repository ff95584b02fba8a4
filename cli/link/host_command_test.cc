// The script that runs a command, by this machine's own shells.
#include "cli/link/host_command.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "base/error.h"
#include "base/process_limits.h"
#include "base/testing/temporary_folder.h"
#include "cli/channel/local_transport.h"
#include "cli/link/bootstrap.h"

namespace tfdist::cli {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

TimePoint Soon() { return SystemClock().Now() + std::chrono::seconds(20); }

// `shell`: which program reads the script; empty: /bin/sh.
std::unique_ptr<ByteChannel> OpenShell(const std::string& shell = {}) {
  TimePoint deadline = Soon();
  auto channel = LocalTransport("localhost").OpenShell(deadline);
  if (shell.empty()) return channel;
  // The shell that is replaced must not have read what is meant for the other one.
  channel->Write("exec " + shell + " -c 'echo ready; exec " + shell + "'\n", Soon());
  std::string said;
  while (said.find("ready\n") == std::string::npos) {
    if (channel->Read(said, Soon()) != ByteChannel::ReadResult::kData) break;
  }
  return channel;
}

struct Ended {
  std::string output;
  HostCommandEnd end;
};

Ended ReadToTheEnd(RunningCommand& running) {
  Ended ended;
  const TimePoint deadline = Soon();
  while (SystemClock().Now() < deadline) {
    if (const auto end = running.Read(ended.output, deadline)) {
      ended.end = *end;
      return ended;
    }
  }
  ADD_FAILURE() << "no end; so far: " << ended.output;
  return ended;
}

Ended RunIt(const HostCommand& command, const std::string& shell = {}) {
  RunningCommand running(OpenShell(shell), command, Soon());
  return ReadToTheEnd(running);
}

HostCommand Command(Words words) {
  HostCommand command;
  command.words = std::move(words);
  return command;
}

HostCommand Sh(const std::string& script) { return Command({"sh", "-c", script}); }

bool IsAlive(pid_t pid) { return kill(pid, 0) == 0; }

// By then: a process that is nobody's child any more is reaped by process 1.
void ExpectEnd(pid_t pid) {
  const TimePoint deadline = Soon();
  while (IsAlive(pid) && SystemClock().Now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_FALSE(IsAlive(pid)) << pid << " still runs";
}

// It was taken for the command's output where its process could not be started.
TEST(HostCommand, WhatTheShellSaysInItsPlaceIsNoOutput) {
  if (geteuid() != 0) GTEST_SKIP() << "needs another account";
  const TemporaryFolder folder;
  int begun = 0;
  int refused = 0;
  for (int most = 1; most <= 100; most += most < 30 ? 1 : 10) {
    SCOPED_TRACE(most);
    const fs::path shell = folder.path() / "shell";
    std::ofstream(shell) << "#!/bin/sh\n[ $# = 0 ] || exec sh \"$@\"\n"
                         << "exec setpriv --reuid=61234 --clear-groups prlimit --nproc=" << most
                         << " dash\n";
    fs::permissions(shell, fs::perms::owner_all);
    try {
      const Ended ended = RunIt(Command({"/bin/echo", "hello"}), shell.string());
      EXPECT_EQ(ended.output, "hello\n");
      ++begun;
    } catch (const Error& error) {
      EXPECT_EQ(error.remedy(), kProcessLimitRemedy) << error.what();
      ++refused;
    }
  }
  EXPECT_GT(begun, 0);
  EXPECT_GT(refused, 0);
}

TEST(HostCommand, GetsItsWordsAsTheyAreFromEveryShell) {
  const Words words = {"printf", "%s|",        "a b", "it's", "$HOME `id` $(id)",
                       "",       "line\nline", "*",   "\\",   "end"};
  for (const char* shell : {"", "dash", "bash", "busybox sh"}) {
    SCOPED_TRACE(shell);
    const Ended ended = RunIt(Command(words), shell);
    EXPECT_EQ(ended.output, "a b|it's|$HOME `id` $(id)||line\nline|*|\\|end|");
    EXPECT_EQ(ended.end.status, 0);
    EXPECT_EQ(ended.end.left, "");
  }
}

TEST(HostCommand, TellsHowTheCommandEnded) {
  EXPECT_EQ(RunIt(Sh("exit 7")).end.status, 7);
  EXPECT_EQ(RunIt(Sh("kill -9 $$")).end.status, 128 + SIGKILL);
  // A shell makes what runs in the background ignore this one.
  EXPECT_EQ(RunIt(Sh("kill -INT $$; exit 5")).end.status, 128 + SIGINT);
  const Ended missing = RunIt(Command({"no-such-program"}));
  EXPECT_EQ(missing.end.status, 127);
  EXPECT_NE(missing.output.find("no-such-program"), std::string::npos);
}

TEST(HostCommand, HasNoVariableOfTheScriptButItsMarkAndAnEmptyStdin) {
  const Ended ended =
      RunIt(Sh("env | grep -cE '^(nonce|mark|task|job|slot|remote_dir|tfdist_.*)='; "
               "env | grep -c ^TFDIST_EXEC=; wc -c; echo ${LC_ALL-unset}"));
  const char* lc_all = std::getenv("LC_ALL");
  EXPECT_EQ(ended.output, std::string("0\n1\n0\n") + (lc_all == nullptr ? "unset" : lc_all) + "\n");
}

TEST(HostCommand, ShowsBothStreamsInTheOrderOfWriting) {
  EXPECT_EQ(RunIt(Sh("echo 1; echo 2 >&2; echo 3; printf 4")).output, "1\n2\n3\n4");
}

TEST(HostCommand, OutputThatBeginsLikeTheEndIsOutput) {
  const Ended ended = RunIt(Sh("printf 'a\\001b\\001'; sleep 0.2; printf '\\001'"));
  EXPECT_EQ(ended.output, std::string("a\1b\1\1"));
}

TEST(HostCommand, WhatItLeavesInTheBackgroundIsEnded) {
  const Ended ended = RunIt(Sh("setsid sleep 1000 & echo $!"));
  const pid_t pid = std::stoi(ended.output);
  EXPECT_EQ(ended.end.left, "");
  ExpectEnd(pid);
}

// Which pid the command has is its first line.
pid_t PidOf(RunningCommand& running) {
  std::string output;
  const TimePoint deadline = Soon();
  while (output.find('\n') == std::string::npos && SystemClock().Now() < deadline) {
    (void)running.Read(output, deadline);
  }
  return std::stoi(output);
}

TEST(HostCommand, EndsWhenAskedToAndIsKilledWhenItDoesNot) {
  RunningCommand gentle(OpenShell(), Sh("echo $$; exec sleep 1000"), Soon());
  PidOf(gentle);
  gentle.Ask(RunningCommand::Ending::kTerm, Soon());
  EXPECT_EQ(ReadToTheEnd(gentle).end.status, 128 + SIGTERM);

  const std::string deaf = "trap '' TERM; echo $$; while true; do sleep 0.1; done";
  RunningCommand stubborn(OpenShell(), Sh(deaf), Soon());
  const pid_t pid = PidOf(stubborn);
  stubborn.Ask(RunningCommand::Ending::kKill, Soon());
  EXPECT_EQ(ReadToTheEnd(stubborn).end.status, 128 + SIGKILL);
  ExpectEnd(pid);
}

TEST(HostCommand, EndsWithItsConnection) {
  auto running = std::make_unique<RunningCommand>(
      OpenShell(), Sh("(setsid sleep 1000 &) ; echo $$; sleep 1000"), Soon());
  const pid_t pid = PidOf(*running);
  running.reset();
  ExpectEnd(pid);
}

TEST(HostCommand, TheHostItselfEndsItAtItsLimit) {
  HostCommand command = Sh("sleep 1000");
  command.limit = std::chrono::seconds(1);
  EXPECT_EQ(RunIt(command).end.status, 128 + SIGTERM);
}

class HostCommandInTask : public ::testing::Test {
 protected:
  void SetUp() override {
    const fs::path slot = base_.path() / "jobs/job-20260801T120000Z-1a2b3c/h1";
    fs::create_directories(slot);
    std::ofstream(slot / "agent") << "#!/bin/sh\necho \"$#: $*\"\n";
    chmod((slot / "agent").c_str(), 0500);
  }
  [[nodiscard]] HostCommand InSlot(int slot) const {
    return {.words = {"print", "a b"},
            .task = "worker:0",
            .job = "job-20260801T120000Z-1a2b3c",
            .slot = slot,
            .base = base_.path().string()};
  }

  TemporaryFolder base_;
};

TEST_F(HostCommandInTask, IsHandedToTheJobsOwnAgent) {
  EXPECT_EQ(RunIt(InSlot(1)).output, "4: in-task worker:0 print a b\n");
}

TEST_F(HostCommandInTask, SaysThatThereIsNoSuchJob) {
  EXPECT_THROW(RunIt(InSlot(2)), NothingThere);
}

}  // namespace
}  // namespace tfdist::cli
