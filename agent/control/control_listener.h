// The coordinator's listening socket. It is made once, before there is a coordinator, and handed
// on.
#pragma once

#include <string>

#include "base/error.h"
#include "base/unique_fd.h"

namespace tfdist::agent {

class ControlPortInUse : public Error {
 public:
  using Error::Error;
};

// Listens on `address` alone; port 0: any free one. A name, but for localhost, means every address
// of this machine: what it means to the members is for their resolvers to say (on Debian a host's
// own name is 127.0.1.1 to itself), and the port lets nobody in without a known key (hub.h). Throws
// Error(kStart), ControlPortInUse where somebody has it.
UniqueFd ListenForAgents(const std::string& address, int port);

// Throws as ListenForAgents where somebody listens on `port` of that address already. Binds nothing.
void LookAtControlPort(const std::string& address, int port);

}  // namespace tfdist::agent
