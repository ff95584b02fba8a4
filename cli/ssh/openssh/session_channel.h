// /bin/sh on the host, over a connection of the user's ssh program.
#pragma once

#include <memory>

#include "base/clock.h"
#include "cli/channel/byte_channel.h"
#include "cli/ssh/config/target.h"

namespace tfdist::ssh {

// Returns once the host has opened the session. Where it refuses that (MaxSessions in sshd_config(5)), another connection is taken.
// Throws as TakeMasterPlace, moves `deadline` as that does.
std::unique_ptr<cli::ByteChannel> OpenSessionChannel(const Target& target, TimePoint& deadline);

}  // namespace tfdist::ssh
