// A port for every task.
#pragma once

#include <vector>

#include "cli/plan/placement.h"

namespace tfdist::cli {

// ports[role][index], shaped as placement.roles; 0: none (an evaluator).
//
// On each machine a role's first task gets the role's base and its further tasks count up, past
// every number that another task, another role's base or the coordinator has. A list is given out
// one by one on each machine. A chief without ports of its own is a worker in this respect.
std::vector<std::vector<int>> AssignPorts(const ClusterFile& file, const Placement& placement,
                                          const std::vector<int>& machines, Problems& problems);

}  // namespace tfdist::cli
