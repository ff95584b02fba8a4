// Which hosts of a plan are one machine: a TensorFlow server listens on every address of its
// machine.
#pragma once

#include <vector>

#include "cli/cluster_file/cluster_file.h"

namespace tfdist::cli {

// A number for each slot; equal numbers are one machine. Equal addresses are, and all local and
// loopback hosts are this one, unless SSH reaches a loopback address under a name of its own (an
// account, a namespace): then it is taken for a machine.
std::vector<int> NumberMachines(const std::vector<HostEntry>& hosts);

}  // namespace tfdist::cli
