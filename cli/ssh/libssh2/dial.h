// A stream to a host's sshd: TCP, or through the jump hosts of ssh's configuration.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/failures.h"
#include "base/unique_fd.h"
#include "cli/channel/child.h"
#include "cli/ssh/config/target.h"
#include "cli/ssh/openssh/openssh_masters.h"

namespace tfdist::ssh {

// A socket, non-blocking. Where a jump host leads there it is that of `ssh -W` over the connection to the jump host, which ends
// with it, and is hung up on, as ssh does. What that ssh says is not kept: where libssh2 fails, the user's ssh tells of the way.
struct Stream {
  explicit Stream(UniqueFd socket) : fd(std::move(socket)) {}
  Stream(Stream&&) noexcept = default;
  Stream& operator=(Stream&&) = delete;
  ~Stream() {
    if (jump) jump->HangUp();
  }

  UniqueFd fd;
  std::optional<cli::Child> jump;
};

// The host is there, and nobody takes connections at its port.
class ConnectionRefused : public Unreachable {
 public:
  using Unreachable::Unreachable;
};

// Nothing has come back from any of the host's addresses.
class NoAnswer : public Unreachable {
 public:
  using Unreachable::Unreachable;
};

// Throws Error(kConnect).
Stream DialThrough(const JumpWay& jump);

// Tries all addresses of a name, in the resolver's order, each a moment after the one before it,
// and takes the first that answers: a dead IPv6 address costs a moment only. Throws Error(kResolve)
// or Error(kConnect) that names every address with its error: ConnectionRefused where one of them refuses, NoAnswer where
// one of them is silent.
UniqueFd DialTcp(const std::string& host_name, int port, const Limits& limits, TimePoint deadline);

}  // namespace tfdist::ssh
