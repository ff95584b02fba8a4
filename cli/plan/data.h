// [data] in a plan: what tasks read and do not change.
#pragma once

#include <vector>

#include "cli/plan/placement.h"
#include "cli/plan/plan.h"

namespace tfdist::cli {

// `folder`: from where the paths of `file` count. Fills in plan.data, before the tasks' texts and mounts are expanded: {data:NAME} is theirs from then on.
void PlanData(const ClusterFile& file, const std::filesystem::path& folder,
              const Placement& placement, Plan& plan, Problems& problems);

// Those that the tasks name, as a host is told of them.
std::vector<protocol::DataDescription> DataOf(const Plan& plan,
                                              const std::vector<protocol::TaskDescription>& tasks);

}  // namespace tfdist::cli
