#include "agent/tasks/port_check.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <string_view>
#include <thread>

#include "agent/census/port_owner.h"
#include "agent/refusal.h"
#include "base/error.h"
#include "base/unique_fd.h"

namespace tfdist::agent {
namespace {

using protocol::Refusal;
using protocol::RefusalKind;

// Another agent of this machine that looks at the same port has it for as long as a system call
// takes.
constexpr int kLooksAgain = 5;
constexpr std::chrono::milliseconds kPause{20};

sockaddr_in AnyAddress4(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

sockaddr_in6 AnyAddress6(int port) {
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_addr = in6addr_any;
  address.sin6_port = htons(static_cast<uint16_t>(port));
  return address;
}

// 0, or the errno value of what was refused.
template <typename Address>
int TryListen(int family, const Address& address) {
  const UniqueFd fd(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return errno == EAFNOSUPPORT ? 0 : errno;  // no IPv6 here
  const int yes = 1;
  // As servers do: connections of an earlier server that are still in TIME_WAIT do not count.
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (family == AF_INET6) setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof yes);
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return errno == EADDRNOTAVAIL ? 0 : errno;
  }
  // Two sockets with SO_REUSEADDR may be bound to one port, but not listen on it (socket(7)).
  return listen(fd.get(), 1) == 0 ? 0 : errno;
}

int TryPort(int port) {
  const int error = TryListen(AF_INET, AnyAddress4(port));
  return error != 0 ? error : TryListen(AF_INET6, AnyAddress6(port));
}

[[noreturn]] void Fail(int port, const std::string& task, int error_number) {
  if (error_number != EADDRINUSE) {
    throw Refusal(RefusalKind::kPortTaken, Phase::kPorts,
                  WithErrno(fmt::format("port {} of {}", port, task), error_number),
                  "choose another port with `ports` in the cluster file");
  }
  const auto owner = FindPortOwner(port);
  throw Refusal(RefusalKind::kPortTaken, Phase::kPorts,
                fmt::format("port {} of {} is in use{}", port, task, owner ? " by " + *owner : ""),
                "end that process, or choose another port with `ports` in the cluster file");
}

}  // namespace

void CheckPort(int port, const std::string& task) {
  int error = TryPort(port);
  for (int again = 0; error == EADDRINUSE && again < kLooksAgain; ++again) {
    std::this_thread::sleep_for(kPause);
    error = TryPort(port);
  }
  if (error != 0) Fail(port, task, error);
}

}  // namespace tfdist::agent
