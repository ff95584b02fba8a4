// From a stream to an encrypted connection.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "base/failures.h"
#include "cli/ssh/config/algorithms.h"
#include "cli/ssh/config/target.h"
#include "cli/ssh/libssh2/connection.h"

namespace tfdist::ssh {

// The host took the connection and did not send its version in time.
class NoVersion : public Unreachable {
 public:
  using Unreachable::Unreachable;
};

// Exchanges versions and keys. `first_key_types`: of host keys, to be preferred ("ssh-rsa"). Throws NoVersion of one that is reached directly, and LibraryFailure.
void Handshake(Connection& connection, const Algorithms& algorithms,
               const std::vector<std::string>& first_key_types, const Target& target,
               TimePoint deadline);

// The host's key, as it travels.
std::string HostKeyBlob(const Connection& connection);

}  // namespace tfdist::ssh
