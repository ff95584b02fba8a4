// Whether a task's ports are free, before anything is started.
#pragma once

#include <string>
#include <vector>

#include "base/unique_fd.h"

namespace tfdist::agent {

// Takes the port on every address of this host, as a TensorFlow server will, and lets go of it.
// Looks again for a tenth of a second: another agent may just be doing the same. Throws
// Error(kPorts) that names port, task and, where it can be seen, the process that has it.
void CheckPort(int port, const std::string& task);

// Whether a process of that job listens on it.
bool IsPortOfJob(int port, const std::string& job);

// The same, and keeps the port: sockets that listen on it. `address`: that numeric one alone;
// empty: every address of this host.
std::vector<UniqueFd> TakePort(int port, const std::string& task, const std::string& address = {});

}  // namespace tfdist::agent
