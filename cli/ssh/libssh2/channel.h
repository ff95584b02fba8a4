// The stdin, stdout and stderr of one program on the host, or a TCP connection that the host makes to
// one of its own ports, over a shared connection.
#pragma once

#include <memory>

#include "cli/channel/byte_channel.h"
#include "cli/ssh/config/target.h"
#include "cli/ssh/libssh2/connection.h"

namespace tfdist::ssh {

// Runs `/bin/sh` on the host: no terminal, no forwarding of anything, no environment sent. The
// account's login shell, whichever it is, parses the command, which is therefore this fixed word.
// Throws LostConnection; LibraryFailure
// when the host opens no session (MaxSessions in sshd_config(5)); Error(kExec) when it refuses the program.
std::unique_ptr<cli::ByteChannel> OpenShellChannel(std::shared_ptr<Connection> connection,
                                                   TimePoint deadline);

// What comes from and goes to `port` of the host's 127.0.0.1. Throws LostConnection; Error(kConnect)
// when nobody listens there, or when sshd forbids it. Source: RFC 4254 7.2.
std::unique_ptr<cli::ByteChannel> OpenTunnelChannel(std::shared_ptr<Connection> connection,
                                                    int port, TimePoint deadline);

}  // namespace tfdist::ssh
