// [data] in a plan: what tasks read and do not change.
#pragma once

#include <vector>

#include "cli/plan/placement.h"
#include "cli/plan/plan.h"

namespace tfdist::cli {

// Fills in plan.data, before the tasks' texts and mounts are expanded: {data:NAME} is theirs from then on.
void PlanData(const ClusterFile& file, const Placement& placement, Plan& plan, Problems& problems);

// Those that the tasks name, as a host is told of them.
std::vector<protocol::DataDescription> DataOf(const Plan& plan,
                                              const std::vector<protocol::TaskDescription>& tasks);

}  // namespace tfdist::cli
