#include "agent/session/unix_listener.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "agent/session/session_table.h"
#include "base/error.h"
#include "base/testing/temporary_folder.h"

namespace tfdist::agent {
namespace {

constexpr uid_t kAnotherUser = 65534;  // nobody

using Connector = std::optional<UniqueFd> (*)(const std::filesystem::path&);

// As a program that is not ours does.
std::optional<UniqueFd> ConnectToAnybody(const std::filesystem::path& folder) {
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  (folder / "sock").string().copy(address.sun_path, sizeof address.sun_path - 1);
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    throw Error(Phase::kControl, "refused");
  }
  return fd;
}

class UnixListenerTest : public testing::Test {
 protected:
  // What a process of another user gets when it connects: 'r' refused, 'c' connected and closed
  // without a byte, 'd' data. Runs the loop meanwhile.
  char ConnectAsAnotherUser(Connector connector) {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    const UniqueFd answer(ends[0]);
    UniqueFd tell(ends[1]);
    const pid_t child = fork();
    if (child == 0)
      _exit(write(tell.get(), std::string(1, TryAs(kAnotherUser, connector)).data(), 1) != 1);
    tell.Reset();
    EventLoop::Watch watch(loop_, answer.get(), POLLIN, [this](short) { loop_.Stop(); });
    loop_.Run();
    char got = '?';
    EXPECT_EQ(read(answer.get(), &got, 1), 1);
    waitpid(child, nullptr, 0);
    return got;
  }

  char TryAs(uid_t uid, Connector connector) const {
    if (setresuid(uid, uid, uid) != 0) return '?';
    try {
      const auto fd = connector(folder_);
      char byte = 0;
      return fd && read(fd->get(), &byte, 1) > 0 ? 'd' : 'c';
    } catch (const Error&) {
      return 'r';
    }
  }

  EventLoop loop_;
  const TemporaryFolder temporary_;
  std::filesystem::path folder_ = temporary_.path();
};

TEST_F(UnixListenerTest, MakesASocketForItsUserAlone) {
  const UnixListener listener(loop_, folder_, [](const UniqueFd&) {});
  struct stat info {};
  ASSERT_EQ(stat((folder_ / "sock").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
}

TEST_F(UnixListenerTest, ReplacesTheSocketOfAnEarlierAgent) {
  {
    const UnixListener first(loop_, folder_, [](const UniqueFd&) {});
  }
  EXPECT_FALSE(ConnectToAgent(folder_)) << "nobody listens";
  const UnixListener second(loop_, folder_, [](const UniqueFd&) {});
  EXPECT_TRUE(ConnectToAgent(folder_));
}

TEST_F(UnixListenerTest, IsReachedHoweverLongTheFoldersPathIs) {
  for (int i = 0; i < 5; ++i) folder_ /= std::string(60, 'x');
  std::filesystem::create_directories(folder_);
  const UnixListener listener(loop_, folder_, [](const UniqueFd&) {});
  EXPECT_TRUE(ConnectToAgent(folder_));
}

TEST_F(UnixListenerTest, GivesAnotherUserNothing) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  SessionTable sessions(loop_, folder_, protocol::Hello{}, [](const auto&, const auto&) {});
  EXPECT_EQ(ConnectAsAnotherUser(ConnectToAgent), 'r') << "the folder is closed";
}

TEST_F(UnixListenerTest, GivesAnotherUserNothingEvenThroughOpenModes) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  SessionTable sessions(loop_, folder_, protocol::Hello{}, [](const auto&, const auto&) {});
  chmod(folder_.c_str(), 0755);
  chmod((folder_ / "sock").c_str(), 0666);
  EXPECT_EQ(ConnectAsAnotherUser(ConnectToAnybody), 'c');
  EXPECT_EQ(ConnectAsAnotherUser(ConnectToAgent), 'r') << "nor is its agent believed to be ours";
}

}  // namespace
}  // namespace tfdist::agent
