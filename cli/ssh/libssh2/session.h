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
  // target.limits each step; it is moved by that wait, and by the time that ssh-agent takes. Throws Unreachable, or Error in
  // phase kConnect, kHostKey or kAuth where the host or its key refuses. An unknown host key is an error,
  // never a prompt: many hosts share one terminal. An sshd that drops new connections (MaxStartups)
  // is asked again for a while; a failed authentication never is. Source: RFC 4251 4.1.
  // Throws LibraryFailure or LibraryBreak for what ssh(1) may manage. Where target.program is kAuto, also before anything is sent: for what
  // the configuration, the keys and known_hosts ask beyond libssh2.
  static Session Open(const Target& target, TimePoint& deadline);

  // Runs `/bin/sh` on the host. Throws as Transport::OpenShell, and SessionRefused (channel.h).
  std::unique_ptr<cli::ByteChannel> OpenShell(TimePoint deadline);

  // Connects to `port` of the host's 127.0.0.1. Throws as OpenTunnelChannel (channel.h).
  std::unique_ptr<cli::ByteChannel> OpenTunnel(int port, TimePoint deadline);

  // Whether any of its channels was opened.
  [[nodiscard]] bool HasHadChannels() const;

  // Whether an earlier failure leaves the connection unusable.
  [[nodiscard]] bool broken() const;

 private:
  Session(std::shared_ptr<Connection> connection, const Limits& limits)
      : connection_(std::move(connection)), limits_(limits) {}

  std::shared_ptr<Connection> connection_;  // with its channels
  Limits limits_;
};

}  // namespace tfdist::ssh
