#include "cli/ssh/libssh2/dial.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "base/error.h"
#include "base/testing/soon.h"

namespace tfdist::ssh {
namespace {

class Listener {
 public:
  Listener() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address_;
    bind(fd_.get(), Plain(), size);
    getsockname(fd_.get(), Plain(), &size);
  }
  void Listen() const { listen(fd_.get(), 5); }
  [[nodiscard]] int port() const { return ntohs(address_.sin_port); }

 private:
  sockaddr* Plain() { return reinterpret_cast<sockaddr*>(&address_); }

  UniqueFd fd_;
  sockaddr_in address_{};
};

TEST(DialTcp, ConnectsToAnAddressWithoutDelay) {
  const Listener listener;
  listener.Listen();
  const UniqueFd fd = DialTcp("127.0.0.1", listener.port(), {}, Soon());
  ASSERT_TRUE(fd.valid());
  int on = 0;
  socklen_t size = sizeof on;
  getsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, &size);
  EXPECT_NE(on, 0);
}

// The listener is there for IPv4 alone; localhost is ::1 first, where the machine has it.
TEST(DialTcp, GoesOnToTheNextAddressOfAName) {
  const Listener listener;
  listener.Listen();
  EXPECT_TRUE(DialTcp("localhost", listener.port(), {}, Soon()).valid());
}

TEST(DialTcp, NamesTheAddressThatRefuses) {
  const Listener listener;  // holds the port, but does not listen
  try {
    (void)DialTcp("127.0.0.1", listener.port(), {}, Soon());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.phase(), Phase::kConnect);
    EXPECT_EQ(error.cause(),
              "127.0.0.1 port " + std::to_string(listener.port()) + ": Connection refused");
  }
}

TEST(DialTcp, AnUnknownNameIsAnotherError) {
  try {
    (void)DialTcp("no-such-host.invalid", 22, {}, Soon());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.phase(), Phase::kResolve);
  }
}

}  // namespace
}  // namespace tfdist::ssh
