// The tasks, and the host of each. The presets `uai` and `mirrored` become roles here; later code
// knows roles only.
#pragma once

#include <string>
#include <vector>

#include "cli/cluster_file/cluster_file.h"

namespace tfdist::cli {

// All tasks of one task type.
struct Role {
  std::string type;
  Where where;                       // of its table, or of [cluster] when a preset made it
  const RoleTable* table = nullptr;  // what [roles.NAME] says; null: nothing
  // The chief of a preset is a trainer like the workers: it follows [roles.worker] where its own
  // table is silent. Null for every other role.
  const RoleTable* model = nullptr;
  std::vector<int> slots;  // of task 0, 1, ...; indices run host by host
};

struct Placement {
  std::vector<HostEntry> hosts;  // index = slot; every slot its own entry; spares last
  std::vector<Role> roles;       // no role without a task
  // False when a mistake left out hosts or roles, so that what is missing is no mistake of its own.
  bool complete = true;
};

// The roles point into `file`.
Placement PlaceTasks(const ClusterFile& file, Problems& problems);

inline bool IsChiefType(std::string_view type) { return type == "chief" || type == "master"; }

}  // namespace tfdist::cli
