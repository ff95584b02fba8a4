// Logs the user in on a host: with keys of ssh-agent and key files, never with a password.
#pragma once

#include "base/clock.h"
#include "cli/ssh/config/openssh_config.h"
#include "cli/ssh/libssh2/connection.h"

namespace tfdist::ssh {

// Offers keys in OpenSSH's order: those of the agent that the configuration names, the agent's
// others (unless IdentitiesOnly), then files that the agent does not hold. Throws Error(kAuth) that
// names each key offered; the caller must not try again: servers count failures, and lock an
// account out after too many.
void Authenticate(Connection& connection, const HostConfig& host, TimePoint deadline);

}  // namespace tfdist::ssh
