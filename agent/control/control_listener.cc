#include "agent/control/control_listener.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <cerrno>

#include "agent/census/port_owner.h"
#include "agent/control/tcp_address.h"
#include "agent/protocol.h"
#include "base/error.h"

namespace tfdist::agent {
namespace {

constexpr int kBacklog = 128;

[[noreturn]] void Fail(const std::string& address, int port, int error_number) {
  const std::string where = fmt::format("{}:{}", protocol::AddressText(address, true), port);
  if (error_number == EADDRINUSE) {
    const auto owner = FindPortOwner(port);
    throw Error(
        Phase::kStart,
        fmt::format("the coordinator's port {} is in use{}", where, owner ? " by " + *owner : ""),
        "leave `[control] port` out, or choose another one");
  }
  throw Error(Phase::kStart, WithErrno("the coordinator cannot listen on " + where, error_number),
              "the first host's address must be one of its own, as the other hosts reach it");
}

}  // namespace

UniqueFd ListenForAgents(const std::string& address, int port) {
  const TcpAddress local = ParseTcpAddress(address, port);
  UniqueFd fd(socket(local.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) Fail(address, port, errno);
  const int yes = 1;
  // A fixed port must be free again right after a job has ended.
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (bind(fd.get(), local.get(), local.size) != 0 || listen(fd.get(), kBacklog) != 0) {
    Fail(address, port, errno);
  }
  return fd;
}

}  // namespace tfdist::agent
