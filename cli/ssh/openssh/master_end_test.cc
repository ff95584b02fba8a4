#include "cli/ssh/openssh/master_end.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "base/testing/temporary_folder.h"
#include "base/unique_fd.h"

namespace tfdist::ssh {
namespace {

sockaddr_un AddressOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  EXPECT_LT(path.size(), sizeof address.sun_path);
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

// Before Linux closes the socket on which it listens, others of a killed process are closed.
TEST(MasterEnd, OneThatIsJustEndingHasEnded) {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "master").string();
  const sockaddr_un address = AddressOf(path);
  UniqueFd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(listen(listener.get(), 4), 0);
  std::thread ending([&] {
    pollfd connection{listener.get(), POLLIN, 0};
    EXPECT_EQ(poll(&connection, 1, 60'000), 1);
    listener.Reset();
  });
  EXPECT_TRUE(HasEnded(path));
  ending.join();
  EXPECT_TRUE(HasEnded(path)) << "nobody listens";
}

TEST(MasterEnd, OneThatAnswersHasNotEnded) {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "master").string();
  const sockaddr_un address = AddressOf(path);
  const UniqueFd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(listen(listener.get(), 4), 0);
  UniqueFd accepted;
  std::thread answering([&] {
    accepted = UniqueFd(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    EXPECT_EQ(send(accepted.get(), "hello", 5, MSG_NOSIGNAL), 5);
  });
  EXPECT_FALSE(HasEnded(path));
  answering.join();
}

TEST(MasterEnd, OneThatTakesNoMoreConnectionsIsListenedTo) {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "master").string();
  const sockaddr_un address = AddressOf(path);
  const auto* const at = reinterpret_cast<const sockaddr*>(&address);
  const auto make = [] {
    return UniqueFd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  };
  {
    const UniqueFd listener = make();
    ASSERT_EQ(bind(listener.get(), at, sizeof address), 0);
    ASSERT_EQ(listen(listener.get(), 0), 0);
    EXPECT_TRUE(IsListenedTo(path));
    std::vector<UniqueFd> waiting;
    do {
      waiting.push_back(make());
    } while (connect(waiting.back().get(), at, sizeof address) == 0);
    ASSERT_EQ(errno, EAGAIN);
    EXPECT_TRUE(IsListenedTo(path));
  }
  EXPECT_FALSE(IsListenedTo(path));
}

}  // namespace
}  // namespace tfdist::ssh
