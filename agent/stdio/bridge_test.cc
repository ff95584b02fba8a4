#include "agent/stdio/bridge.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <string>

#include "base/clock.h"
#include "base/unique_fd.h"

namespace tfdist::agent {
namespace {

using namespace std::chrono_literals;

// A CLI that neither reads nor says anything, while the agent has much to say. poll(2) calls a pipe
// writable that has room for 4 KiB alone.
TEST(Bridge, GivesUpASilentCliThoughTheAgentStillTalks) {
  std::array<int, 2> in{};
  std::array<int, 2> out{};
  std::array<int, 2> agent{};
  ASSERT_EQ(pipe2(in.data(), O_CLOEXEC), 0);
  ASSERT_EQ(pipe2(out.data(), O_CLOEXEC), 0);
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, agent.data()), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    dup2(in[0], STDIN_FILENO);
    dup2(out[1], STDOUT_FILENO);
    close(agent[1]);
    Bridge(agent[0], 500ms);
    _exit(0);
  }
  for (const int fd : {agent[0], in[0], out[1]}) close(fd);
  const UniqueFd talker(agent[1]);
  const std::string text(1 << 20, 'x');
  ASSERT_GT(send(talker.get(), text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL), 65536);
  const TimePoint limit = SystemClock().Now() + 30s;
  int status = 0;
  pid_t ended = 0;
  while ((ended = waitpid(child, &status, WNOHANG)) == 0 && SystemClock().Now() < limit) {
    poll(nullptr, 0, 10);
  }
  EXPECT_EQ(ended, child) << "it waits in write(2)";
  if (ended == 0) {
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
  }
  EXPECT_TRUE(WIFEXITED(status));
  close(in[1]);
  close(out[0]);
}

}  // namespace
}  // namespace tfdist::agent
