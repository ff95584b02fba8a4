// A file that a process runs cannot be removed from NFS: its folder keeps it, under a name like .nfs0001, for as long as the process is there.
#pragma once

#include <string>
#include <vector>

namespace tfdist::agent {

// Runs this program anew from a copy in memory, in `role`, with the same descriptors. Returns where the kernel allows no such program.
void RunFromMemory(const char* role, const std::vector<std::string>& arguments);

}  // namespace tfdist::agent
