#include "agent/control/control_listener.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>

#include "agent/census/port_owner.h"
#include "agent/control/host_names.h"
#include "agent/control/tcp_address.h"
#include "base/error.h"
#include "wire/protocol.h"

namespace tfdist::agent {
namespace {

constexpr int kBacklog = 128;

[[noreturn]] void Fail(const std::string& address, int port, int error_number) {
  const std::string where = fmt::format("{}:{}", protocol::AddressText(address, true), port);
  if (error_number == EADDRINUSE) {
    const auto owner = FindPortOwner(port);
    throw ControlPortInUse(Phase::kStart,
                           fmt::format("the coordinator's port {} is in use{}", where,
                                       owner ? " by " + Describe(*owner) : ""),
                           "leave `[control] port` out, or choose another one");
  }
  throw Error(Phase::kStart, WithErrno("the coordinator cannot listen on " + where, error_number),
              "the first host's address must be one of its own, as the other hosts reach it");
}

// 0, or the errno value of what was refused.
int TryToListen(const std::string& address, int port, UniqueFd& fd) {
  const TcpAddress local = ParseTcpAddress(address, port);
  fd.Reset(socket(local.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return errno;
  const int yes = 1;
  const int no = 0;
  // A fixed port must be free again right after a job has ended.
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  // "::" is IPv4 as well, whatever bindv6only says.
  if (local.family() == AF_INET6) {
    setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
  }
  if (bind(fd.get(), local.get(), local.size) != 0) return errno;
  return listen(fd.get(), kBacklog) == 0 ? 0 : errno;
}

std::string ListenAddress(const std::string& address) {
  if (IsNumericAddress(address)) return address;
  return IsLocalhostName(address) ? "127.0.0.1" : "::";
}

}  // namespace

UniqueFd ListenForAgents(const std::string& address, int port) {
  const std::string local = ListenAddress(address);
  UniqueFd fd;
  int error = TryToListen(local, port, fd);
  const bool no_ipv6 = error == EAFNOSUPPORT || error == EADDRNOTAVAIL;
  if (local == "::" && no_ipv6) error = TryToListen("0.0.0.0", port, fd);
  if (error != 0) Fail(address, port, error);
  return fd;
}

void LookAtControlPort(const std::string& address, int port) {
  const std::string local = ListenAddress(address);
  if (!ListenersOn(port, local == "::" ? "" : local).empty()) Fail(address, port, EADDRINUSE);
}

}  // namespace tfdist::agent
