// Which process listens on a port: for an error message.
#pragma once

#include <optional>
#include <string>

namespace tfdist::agent {

// "pid 123 (python3)"; nullopt when it cannot be seen (another user's process).
std::optional<std::string> FindPortOwner(int port);

}  // namespace tfdist::agent
