// The stdin, stdout and stderr of one program on the host, over a shared connection.
#pragma once

#include <memory>

#include "cli/link/byte_channel.h"
#include "cli/ssh/connection.h"
#include "cli/ssh/target.h"

namespace tfdist::ssh {

// Runs `/bin/sh` on the host: no terminal, no forwarding of anything, no environment sent. The
// account's login shell, whichever it is, parses the command, which is therefore this fixed word.
// Throws LostConnection; Error(kExec) when the host refuses.
std::unique_ptr<cli::ByteChannel> OpenShellChannel(std::shared_ptr<Connection> connection,
                                                   TimePoint deadline);

}  // namespace tfdist::ssh
