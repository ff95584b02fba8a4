#include "cli/channel/local_transport.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <csignal>
#include <optional>

#include "base/clock.h"
#include "base/error.h"
#include "base/spawn.h"
#include "base/testing/soon.h"
#include "cli/channel/child.h"
#include "cli/channel/tail.h"

namespace tfdist::cli {
namespace {

using ReadResult = ByteChannel::ReadResult;

std::unique_ptr<ByteChannel> Shell() {
  TimePoint deadline = Soon();
  return LocalTransport("localhost").OpenShell(deadline);
}

std::string ReadAll(ByteChannel& channel) {
  std::string all;
  ReadResult result{};
  while ((result = channel.Read(all, Soon())) == ReadResult::kData) {
  }
  EXPECT_EQ(result, ReadResult::kEndOfFile);
  return all;
}

TEST(LocalTransport, RunsAShellAndKeepsItsStderrApart) {
  const auto channel = Shell();
  channel->Write("echo out; echo err >&2; exit\n", Soon());
  EXPECT_EQ(ReadAll(*channel), "out\n");
  EXPECT_EQ(channel->Stderr(), "err\n");
}

TEST(Child, HasEndedThoughNobodyKeptItsExitCode) {
  const auto before = signal(SIGCHLD, SIG_IGN);
  Child one = Child::Spawn({"true"}, {});
  std::optional<int> status;
  const TimePoint deadline = Soon();
  while (!(status = one.TryWait()) && SystemClock().Now() < deadline) poll(nullptr, 0, 1);
  EXPECT_EQ(status, kUnseenEnd);
  EXPECT_EQ(Child::Spawn({"true"}, {}).Wait(), kUnseenEnd);
  (void)signal(SIGCHLD, before);
}

TEST(LocalTransport, ReadsBeforeAProgramThatFillsItsStderr) {
  const auto channel = Shell();
  channel->Write("head -c 1000000 /dev/zero | tr '\\0' x >&2; echo done; exit\n", Soon());
  EXPECT_EQ(ReadAll(*channel), "done\n");
  EXPECT_EQ(channel->Stderr().size(), kKeptTextBytes);
}

TEST(LocalTransport, WritesWhileTheProgramWritesAsWell) {
  const auto channel = Shell();
  channel->Write("echo ready; exec cat\n", Soon());
  std::string echo;
  ASSERT_EQ(channel->Read(echo, Soon()), ReadResult::kData);  // the shell would read ahead
  ASSERT_EQ(echo, "ready\n");
  const std::string text(8 * 1024 * 1024, 'x');
  channel->Write(text, Soon());
  echo.clear();
  while (echo.size() < text.size()) ASSERT_EQ(channel->Read(echo, Soon()), ReadResult::kData);
  EXPECT_EQ(echo, text);
}

TEST(LocalTransport, WritingToAProgramThatHasEndedIsAnError) {
  const auto channel = Shell();
  channel->Write("exit\n", Soon());
  EXPECT_EQ(ReadAll(*channel), "");
  EXPECT_THROW(channel->Write("too late", Soon()), Error);
}

TEST(LocalTransport, ReadWithoutTimeTakesWhatIsThere) {
  const auto channel = Shell();
  std::string none;
  EXPECT_EQ(channel->Read(none, TimePoint{}), ReadResult::kTimeout);
  channel->Write("echo here; read -r line; exit\n", Soon());
  pollfd readable{channel->PollFd(), POLLIN, 0};
  ASSERT_EQ(poll(&readable, 1, 20'000), 1);
  EXPECT_EQ(channel->Read(none, TimePoint{}), ReadResult::kData);
  EXPECT_EQ(none, "here\n");
}

TEST(LocalTransport, AProgramThatReadsItsStdinEndsWithTheChannelAndIsReaped) {
  auto channel = Shell();
  channel->Write("echo $$; exec cat\n", Soon());
  std::string pid;
  ASSERT_EQ(channel->Read(pid, Soon()), ReadResult::kData);
  channel.reset();
  const TimePoint deadline = Soon();
  while (kill(std::stoi(pid), 0) == 0) {  // a zombie still takes signals
    ASSERT_LT(SystemClock().Now(), deadline) << "the child was not reaped";
  }
}

TEST(OnOneLine, KeepsTheEndAndHidesWhatATerminalWouldObey) {
  EXPECT_EQ(OnOneLine("\nfirst\r\n\n\x1b[31msecond\n"), "first / ?[31msecond");
  EXPECT_EQ(OnOneLine("abcdef", 3), "def");
}

}  // namespace
}  // namespace tfdist::cli
