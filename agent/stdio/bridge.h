// Bytes between this process's stdin and stdout and the agent's socket, both ways.
#pragma once

#include <chrono>

namespace tfdist::agent {

// Returns when either side has closed, or when stdin has been silent for `idle_limit`: the CLI
// pings, so its connection is dead then. Blocks.
void Bridge(int agent_fd, std::chrono::milliseconds idle_limit);

}  // namespace tfdist::agent
