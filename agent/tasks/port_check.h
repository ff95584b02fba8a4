// Whether a task's ports are free, before anything is started.
#pragma once

#include <string>

namespace tfdist::agent {

// Takes the port on every address of this host, as a TensorFlow server will, and lets go of it.
// Looks again for a tenth of a second: another agent may just be doing the same. Throws
// Error(kPorts) that names port, task and, where it can be seen, the process that has it.
void CheckPort(int port, const std::string& task);

}  // namespace tfdist::agent
