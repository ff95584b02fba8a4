// The end of connections that ssh(1) keeps (ControlMaster in ssh_config(5)).
#pragma once

#include <string>
#include <vector>

namespace tfdist::ssh {

// Whether somebody listens on the control socket there; nobody does on one that a killed process has
// left.
bool IsListenedTo(const std::string& socket);

// Whether nobody listens there, or only a process that is just ending: its connections break before it stops to listen. One that
// says nothing for a second has not ended.
bool HasEnded(const std::string& socket);

// Asks all ssh programs that listen on these sockets to end, and returns when they have ended: `ssh -O exit` returns
// earlier. One that has not ended after 2 s is killed, as is one that takes no more connections. For
// any thread.
void EndMastersAt(const std::vector<std::string>& sockets);

}  // namespace tfdist::ssh
