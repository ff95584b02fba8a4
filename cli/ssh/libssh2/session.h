// One authenticated connection to one host.
#pragma once

#include <memory>

#include "base/clock.h"
#include "cli/channel/byte_channel.h"
#include "cli/ssh/config/target.h"

namespace tfdist::ssh {

class Connection;

// Owns its socket and libssh2 session, together with its channels: the last of them to go shuts the
// socket down first, so a dead peer cannot make it block. Movable. A session and its channels stay
// on one thread: libssh2 allows threads only where no handle is shared.
class Session {
 public:
  // Reads ssh's configuration for the host, connects, checks the host key against known_hosts,
  // authenticates; at most 128 at a time, 8 of one sshd, the others wait. `deadline` bounds all of it together,
  // target.limits each step; it is moved by that wait, and by the time that ssh-agent takes. One try: throws LibraryFailure for
  // all that ssh(1) may manage, also before anything is sent, where the configuration, the keys and known_hosts ask for more
  // than libssh2 has. Throws Unreachable for a host that takes no connection or falls silent, and Error where ssh refuses its
  // configuration or ssh-agent refuses to sign. Source: RFC 4251 4.1.
  static Session Open(const Target& target, TimePoint& deadline);

  // Runs `/bin/sh` on the host. Throws as OpenShellChannel (channel.h).
  std::unique_ptr<cli::ByteChannel> OpenShell(TimePoint deadline);

  // Connects to `port` of the host's 127.0.0.1. Throws as OpenTunnelChannel (channel.h).
  std::unique_ptr<cli::ByteChannel> OpenTunnel(int port, TimePoint deadline);

  // Whether an earlier failure leaves the connection unusable.
  [[nodiscard]] bool broken() const;

 private:
  Session(std::shared_ptr<Connection> connection, const Limits& limits)
      : connection_(std::move(connection)), limits_(limits) {}

  std::shared_ptr<Connection> connection_;  // with its channels
  Limits limits_;
};

}  // namespace tfdist::ssh
