// The tasks, and the host of each. The presets `uai` and `mirrored` become roles here; later code
// knows roles only.
#pragma once

#include <vector>

#include "cli/cluster_file/cluster_file.h"
#include "cli/plan/role.h"

namespace tfdist::cli {

struct Placement {
  std::vector<HostEntry> hosts;  // index = slot; every slot its own entry; spares last
  std::vector<Role> roles;       // no role without a task
  // False when a mistake left out hosts or roles, so that what is missing is no mistake of its own.
  bool complete = true;
};

// With `file.own_host`, each task has a slot of its own. The roles point into `file`.
Placement PlaceTasks(const ClusterFile& file, Problems& problems);

}  // namespace tfdist::cli
