// Messages on stdin and stdout, for the roles that talk to the CLI themselves.
#pragma once

#include <optional>

#include "agent/frame.h"
#include "agent/protocol.h"

namespace tfdist::agent {

// The next message from stdin, and not a byte more: what follows may be for somebody else. nullopt
// at the end of the input. Throws Error(kControl).
std::optional<protocol::Message> ReadFromStdin();

// Throws Error(kControl) when nobody reads.
void WriteToStdout(const protocol::Message& message);

}  // namespace tfdist::agent
