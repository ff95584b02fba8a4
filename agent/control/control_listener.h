// The coordinator's listening socket. It is made once, before there is a coordinator, and handed
// on.
#pragma once

#include <string>

#include "base/unique_fd.h"

namespace tfdist::agent {

// Listens on that address alone; port 0: any free one. Throws Error(kStart).
UniqueFd ListenForAgents(const std::string& address, int port);

}  // namespace tfdist::agent
