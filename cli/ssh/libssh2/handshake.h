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

// The peer's first bytes, read without removing them from the socket.
struct Greeting {
  enum class Kind {
    kSomething,  // it speaks
    kDropped,    // it hung up, or said that it has too many logins: another try may help
    kSilent,     // nothing until the deadline
  };
  Kind kind = Kind::kSilent;
  std::string text;  // what it sent, if that was not SSH
};
Greeting AwaitGreeting(Stream& stream, TimePoint deadline);

// The host took the connection and did not send its version in time.
class NoVersion : public Unreachable {
 public:
  using Unreachable::Unreachable;
};

// Exchanges versions and keys. `first_key_types`: of host keys, to be preferred ("ssh-rsa"). Throws Unreachable, also NoVersion;
// LibraryFailure where the two find no algorithms.
void Handshake(Connection& connection, const Algorithms& algorithms,
               const std::vector<std::string>& first_key_types, const Limits& limits,
               TimePoint deadline);

// The host's key, as it travels.
std::string HostKeyBlob(const Connection& connection);

}  // namespace tfdist::ssh
