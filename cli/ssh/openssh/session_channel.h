// /bin/sh on the host, over a connection of the user's ssh program.
#pragma once

#include <memory>
#include <string>

#include "base/clock.h"
#include "cli/channel/byte_channel.h"
#include "cli/ssh/config/target.h"

namespace tfdist::ssh {

// Where the host refuses the session (MaxSessions in sshd_config(5)), another connection is taken: while Read or Write runs, which may then take as
// long as a login. `host`: as the cluster file has it, for errors. Throws as TakeMasterPlace, moves `deadline` as that does.
std::unique_ptr<cli::ByteChannel> OpenSessionChannel(const Target& target, std::string host,
                                                     TimePoint& deadline);

}  // namespace tfdist::ssh
