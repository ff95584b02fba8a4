// The end of connections that ssh(1) keeps (ControlMaster in ssh_config(5)).
#pragma once

#include <string>
#include <vector>

#include "base/unique_fd.h"

namespace tfdist::ssh {

// Connected to the control socket there; none where nobody listens, as on one that a killed process has left.
UniqueFd ConnectToMaster(const std::string& socket);

// Asks all ssh programs that listen on these sockets to end, and returns when they have ended: `ssh -O exit` returns
// earlier. One that has not ended after 2 s is killed. For any thread.
void EndMastersAt(const std::vector<std::string>& sockets);

}  // namespace tfdist::ssh
