// Logs the user in on a host: with keys of ssh-agent and key files, never with a password.
#pragma once

#include "base/clock.h"
#include "cli/ssh/config/openssh_config.h"
#include "cli/ssh/config/target.h"
#include "cli/ssh/keys/key_offers.h"
#include "cli/ssh/libssh2/connection.h"

namespace tfdist::ssh {

// In OpenSSH's order: those of the agent that the configuration names, the agent's others (unless IdentitiesOnly), then
// files that the agent does not hold. `deadline` is moved by the time that the agent takes to say what it holds.
KeyOffers CollectKeys(const HostConfig& host, const Limits& limits, TimePoint& deadline);

// Offers `keys`; with target.limits.authentication for it, and no longer than `deadline`, which is moved by the time that the
// agent takes to sign. Throws LibraryFailure(kAuth) that names each key offered, Unreachable where the host falls silent. The
// caller must not try again: servers count failures, and lock an account out after too many.
void Authenticate(Connection& connection, const HostConfig& host, const KeyOffers& keys,
                  const Target& target, TimePoint& deadline);

}  // namespace tfdist::ssh
