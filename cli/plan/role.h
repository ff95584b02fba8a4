// A role of a job, once its layout is worked out.
#pragma once

#include <string>
#include <string_view>
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

inline bool IsChiefType(std::string_view type) { return type == "chief" || type == "master"; }

}  // namespace tfdist::cli
