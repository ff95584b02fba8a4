// The parts of a check that need no other host. tests/smoke/test_check.py has the rest.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <vector>

#include "agent/check/handshake.h"
#include "agent/check/held_ports.h"
#include "agent/check/host_settings.h"
#include "agent/check/programs.h"
#include "agent/check/quick_look.h"
#include "agent/check/reach.h"
#include "agent/control/tcp_address.h"
#include "agent/tasks/port_check.h"
#include "base/failures.h"
#include "base/file.h"
#include "base/testing/soon.h"
#include "base/testing/temporary_folder.h"

namespace tfdist::agent {
namespace {

using protocol::ReachFailure;
using protocol::Unreached;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

const std::string kKey(32, 'k');

TEST(HandshakeTest, TheAnswerNamesTheSlot) {
  const Handshake handshake(kKey);
  const std::string question = handshake.Question(2222);
  const auto answer = handshake.Answer(question, 2222, 70'000);
  ASSERT_TRUE(answer);
  EXPECT_EQ(handshake.Slot(*answer, question, 2222), 70'000);
}

TEST(HandshakeTest, NothingIsSaidToAStranger) {
  const Handshake handshake(kKey);
  const std::string question = Handshake(std::string(32, 'x')).Question(2222);
  EXPECT_FALSE(handshake.Answer(question, 2222, 1));
  EXPECT_FALSE(handshake.Answer("GET / HTTP/1.1\r\n", 2222, 1));
  EXPECT_FALSE(handshake.Answer(handshake.Question(2222), 2223, 1)) << "another port's";
}

TEST(HandshakeTest, AnEchoAnOldAnswerAndAnotherSlotAreNoAnswer) {
  const Handshake handshake(kKey);
  const std::string question = handshake.Question(2222);
  EXPECT_FALSE(handshake.Slot(question.substr(0, kAnswerBytes), question, 2222));
  const std::string other = handshake.Question(2222);
  EXPECT_FALSE(handshake.Slot(*handshake.Answer(other, 2222, 1), question, 2222));
  std::string forged = *handshake.Answer(question, 2222, 1);
  forged[3] = 2;
  EXPECT_FALSE(handshake.Slot(forged, question, 2222));
}

TEST(HandshakeTest, AKeyHas32Bytes) { EXPECT_THROW(Handshake("short"), ProtocolError); }

// Nobody else can listen there, and nobody does.
UniqueFd BindAnywhere() {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const TcpAddress any = ParseTcpAddress("127.0.0.1", 0);
  EXPECT_EQ(bind(fd.get(), any.get(), any.size), 0);
  return fd;
}

UniqueFd ListenAnywhere() {
  UniqueFd fd = BindAnywhere();
  EXPECT_EQ(listen(fd.get(), 1024), 0);
  return fd;
}

class ReachTest : public testing::Test {
 protected:
  std::vector<Unreached> Dial(const std::vector<protocol::Target>& targets,
                              const KnownNames& names = {}, TimePoint deadline = Soon()) {
    return FindUnreached(handshake_, targets, names, deadline);
  }
  int Hold() {
    UniqueFd fd = ListenAnywhere();
    const int port = LocalPort(fd.get());
    held_.Add(std::move(fd), port);
    return port;
  }

  Handshake handshake_{kKey};
  HeldPorts held_{handshake_, 7};
};

TEST_F(ReachTest, AHeldPortIsReached) {
  const int port = Hold();
  const int another = Hold();
  held_.Serve();
  EXPECT_THAT(Dial({{7, "127.0.0.1", port}, {7, "127.0.0.1", another}}), IsEmpty());
}

TEST_F(ReachTest, OneGoodAddressOfANameIsEnough) {
  const int port = Hold();
  held_.Serve();
  EXPECT_THAT(Dial({{7, "gpu7", port}}, {{"gpu7", {"127.0.0.2", "127.0.0.1"}}}), IsEmpty());
}

TEST_F(ReachTest, AnotherHostIsToldByItsSlot) {
  const int port = Hold();
  held_.Serve();
  const auto failures = Dial({{3, "127.0.0.1", port}});
  ASSERT_THAT(failures, SizeIs(1));
  EXPECT_EQ(failures[0].failure, ReachFailure::kOtherHost);
  EXPECT_EQ(failures[0].answered_by, 7);
}

TEST_F(ReachTest, NobodyAMuteStrangerAndANameWithoutAddressAreToldApart) {
  const UniqueFd mute = ListenAnywhere();
  const UniqueFd closed = BindAnywhere();
  const auto failures = Dial({{1, "127.0.0.1", LocalPort(closed.get())},
                              {2, "127.0.0.1", LocalPort(mute.get())},
                              {3, "gpu3", 2222}},
                             {}, Soon(std::chrono::seconds(1)));
  std::vector<ReachFailure> kinds;
  for (const Unreached& failure : failures) kinds.push_back(failure.failure);
  EXPECT_THAT(kinds, ElementsAre(ReachFailure::kRefused, ReachFailure::kStranger,
                                 ReachFailure::kUnresolved));
}

std::chrono::nanoseconds ProcessorTime() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

// What cannot be accepted stays in the queue, and makes poll(2) return at once.
TEST(HeldPortsTest, DoesNotSpinWhereNoDescriptorIsLeft) {
  const Handshake handshake(kKey);
  UniqueFd listener = ListenAnywhere();
  const int port = LocalPort(listener.get());
  HeldPorts held(handshake, 7);
  held.Add(std::move(listener), port);
  held.Serve();
  const UniqueFd caller(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit few{64, before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &few);
  std::vector<UniqueFd> all;
  do {
    all.emplace_back(dup(STDOUT_FILENO));  // NOLINT: no program is started meanwhile
  } while (all.back().valid());
  const TcpAddress address = ParseTcpAddress("127.0.0.1", port);
  ASSERT_EQ(connect(caller.get(), address.get(), address.size), 0);
  const auto begin = ProcessorTime();
  poll(nullptr, 0, 300);
  EXPECT_LT(ProcessorTime() - begin, std::chrono::milliseconds(100));
  setrlimit(RLIMIT_NOFILE, &before);
}

// Without SO_REUSEADDR, as many a server of a user's own.
TEST(HeldPortsTest, AnyServerCanHaveThePortAtOnceAfterwards) {
  const Handshake handshake(kKey);
  UniqueFd fd = ListenAnywhere();
  const int port = LocalPort(fd.get());
  {
    HeldPorts held(handshake, 7);
    held.Add(std::move(fd), port);
    held.Serve();
    EXPECT_THAT(FindUnreached(handshake, {{7, "127.0.0.1", port}}, {}, Soon()), IsEmpty());
  }
  const UniqueFd server(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const TcpAddress address = ParseTcpAddress("127.0.0.1", port);
  EXPECT_EQ(bind(server.get(), address.get(), address.size), 0);
}

TEST_F(ReachTest, AnIdleCallerKeepsNobodyOut) {
  const int port = Hold();
  held_.Serve();
  std::vector<UniqueFd> idle;
  const TcpAddress address = ParseTcpAddress("127.0.0.1", port);
  for (int i = 0; i < 400; ++i) {
    idle.emplace_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    (void)connect(idle.back().get(), address.get(), address.size);
  }
  EXPECT_THAT(Dial({{7, "127.0.0.1", port}}), IsEmpty());
}

TEST(PortTest, AKeptPortIsTaken) {
  const int port = LocalPort(ListenAnywhere().get());
  const auto kept = TakePort(port, "worker:0");
  EXPECT_FALSE(kept.empty());
  EXPECT_THROW(CheckPort(port, "worker:1"), Error);
}

// What loginctl prints: systemd 252.
TEST(ProgramsTest, LogindEndsProcessesByItsSettings) {
  EXPECT_FALSE(EndsProcesses("KillUserProcesses=no\nKillOnlyUsers=\nKillExcludeUsers=root\n", "u"));
  EXPECT_TRUE(EndsProcesses("KillUserProcesses=yes\nKillOnlyUsers=\nKillExcludeUsers=root\n", "u"));
  EXPECT_FALSE(EndsProcesses("KillUserProcesses=yes\nKillExcludeUsers=root u\n", "u"));
  EXPECT_FALSE(EndsProcesses("KillUserProcesses=yes\nKillOnlyUsers=someone else\n", "u"));
  EXPECT_FALSE(EndsProcesses("", "u"));
}

TEST(ProgramsTest, ASessionIsSeenInTheCgroup) {
  EXPECT_EQ(SessionOf("0::/user.slice/user-1000.slice/session-3.scope\n"), "session-3.scope");
  EXPECT_EQ(SessionOf("4:memory:/\n1:name=systemd:/user.slice/session-c2.scope\n0::/\n"),
            "session-c2.scope");
  EXPECT_EQ(SessionOf("0::/system.slice/ssh.service\n"), "");
  EXPECT_EQ(SessionOf("0::/session-3"), "");
}

TEST(ProgramsTest, SystemdEndsLoginsShortOfMemoryByItsPolicyOrAge) {
  EXPECT_TRUE(EndsLoginsShortOfMemory("OOMPolicy=stop\n", "systemd 255 (255.4)\n"));
  EXPECT_TRUE(EndsLoginsShortOfMemory("OOMPolicy=kill\n", "systemd 255 (255.4)\n"));
  EXPECT_FALSE(EndsLoginsShortOfMemory("OOMPolicy=continue\n", "systemd 252 (252.38)\n"));
  EXPECT_TRUE(EndsLoginsShortOfMemory("", "systemd 252 (252.38-1~deb12u1)\n"));
  EXPECT_FALSE(EndsLoginsShortOfMemory("", "systemd 249 (249.11)\n"));
  EXPECT_FALSE(EndsLoginsShortOfMemory("", ""));
}

TEST(ProgramsTest, PythonSaysItsVersionAndThoseOfPackages) {
  const TimePoint deadline = SystemClock().Now() + std::chrono::seconds(20);
  const auto python = AskPython("python3", {}, {"no-such-package"}, deadline);
  EXPECT_EQ(python.why, "");
  EXPECT_THAT(python.version, testing::StartsWith("3."));
  EXPECT_THAT(python.packages, ElementsAre(testing::Pair("no-such-package", "")));
  EXPECT_NE(AskPython("no-such-python", {}, {}, deadline).why, "");
}

TEST(HostSettings, AreLinesThatSetAVariable) {
  EXPECT_TRUE(SetsVariable("a\n  export TF_CONFIG='{}'\n", "TF_CONFIG"));
  EXPECT_TRUE(SetsVariable("TF_CONFIG=", "TF_CONFIG"));
  EXPECT_FALSE(
      SetsVariable("# TF_CONFIG={}\nexport TF_CONFIG\nMY_TF_CONFIG=1\nTF_CONFIGS=1\n"
                   "echo TF_CONFIG=\n",
                   "TF_CONFIG"));
  EXPECT_FALSE(SetsVariable("", "TF_CONFIG"));
}

TEST(HostSettings, ForeignTfConfigIsFoundInALoginAndInItsProfile) {
  const TemporaryFolder folder;
  const auto etc = folder.path() / "etc";
  const auto home = folder.path() / "home";
  const auto none = Environment::From(nullptr);
  EXPECT_THAT(FindForeignSettings(none, etc, home), IsEmpty());
  const char* own[] = {"TF_CONFIG={}", nullptr};
  EXPECT_THAT(FindForeignSettings(Environment::From(own), etc, home), IsEmpty());
  const char* login[] = {"TF_CONFIG={}", "SSH_CONNECTION=10.0.0.1 1 10.0.0.2 22", nullptr};
  const auto found = FindForeignSettings(Environment::From(login), etc, home);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].why, testing::EndsWith("each task gets tfdist's own instead"));
  std::filesystem::create_directories(home);
  ReplaceFile(home / ".profile", "export TF_CONFIG={}\n", 0600);
  std::filesystem::create_directories(etc / "profile.d");
  ReplaceFile(etc / "profile.d/a.txt", "TF_CONFIG={}\n", 0600);
  const auto profile = FindForeignSettings(none, etc, home);
  ASSERT_THAT(profile, SizeIs(1));
  EXPECT_THAT(profile[0].why,
              testing::StartsWith("TF_CONFIG is set in " + (home / ".profile").string() + ";"));
  EXPECT_THAT(FindForeignSettings(Environment::From(login), etc, home), SizeIs(2));
}

TEST(HostSettings, WhatDisturbsTrainingsIsNamedWithoutItsValue) {
  const TemporaryFolder folder;
  const auto find = [&](const char* const* strings) {
    return FindForeignSettings(Environment::From(strings), folder.path(), folder.path());
  };
  const char* own[] = {"LD_PRELOAD=/x.so", nullptr};
  EXPECT_THAT(find(own), IsEmpty()) << "this machine's own user knows it";
  const char* login[] = {"SSH_CONNECTION=10.0.0.1 1 10.0.0.2 22",
                         "http_proxy=http://me:secret@proxy:3128",
                         "NCCL_DEBUG=INFO",
                         "PYTHONHOME=",
                         "NCCLS=1",
                         "PATH=/bin",
                         nullptr};
  const auto found = find(login);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].why,
            "NCCL_DEBUG, http_proxy: set there for every program, so tasks inherit it");
}

TEST(QuickLook, SaysThatTheDiskIsSmall) {
  const TemporaryFolder folder;
  if (mount("tfdist-test", folder.path().c_str(), "tmpfs", 0, "size=4m") != 0) {
    GTEST_SKIP() << "cannot mount a small disk here (not root)";
  }
  const auto troubles = QuickLook(folder.path(), Soon());
  umount2(folder.path().c_str(), MNT_DETACH);
  ASSERT_GE(troubles.size(), 1U);
  EXPECT_EQ(troubles[0].why, "4 MiB are free at " + folder.path().string());
}

}  // namespace
}  // namespace tfdist::agent
