#include "cli/ssh/openssh/master_end.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "base/testing/temporary_folder.h"
#include "base/unique_fd.h"

namespace tfdist::ssh {
namespace {

TEST(MasterEnd, OneThatTakesNoMoreConnectionsIsListenedTo) {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "master").string();
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  ASSERT_LT(path.size(), sizeof address.sun_path);
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
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
