// Messages on stdin and stdout, for the roles that talk to the CLI themselves.
#pragma once

#include <optional>

#include "base/clock.h"
#include "wire/frame.h"
#include "wire/protocol.h"

namespace tfdist::agent {

// The next message from `fd`, and not a byte more: what follows may be for somebody else. nullopt
// at the end of the input. Throws Error(kControl) when the message is not whole at the deadline,
// however many bytes came, and ProtocolError when it is malformed.
std::optional<protocol::Message> ReadMessage(int fd, TimePoint deadline);

// Throws Error(kControl) when nobody reads.
void WriteToStdout(const protocol::Message& message);

}  // namespace tfdist::agent
