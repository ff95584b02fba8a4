// A port for every task.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/plan/placement.h"

namespace tfdist::cli {

struct TaskPorts {
  int own = 0;                      // of TF_CONFIG; 0: none (an evaluator)
  std::map<std::string, int> more;  // by the names that the role gives them
};

// ports[role][index], shaped as placement.roles.
//
// On each machine a role's first task gets the role's base and its further tasks count up, past
// every number that another task, another role's base or the coordinator has; so does the first one, where nobody has said
// the base. A list is given out
// one by one on each machine. A chief without ports of its own is a worker in this respect.
std::vector<std::vector<TaskPorts>> AssignPorts(const ClusterFile& file, const Placement& placement,
                                                const std::vector<int>& machines,
                                                Problems& problems);

}  // namespace tfdist::cli
