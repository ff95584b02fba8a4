// Which tasks run in containers.
#pragma once

#include "cli/plan/placement.h"
#include "cli/plan/plan.h"

namespace tfdist::cli {

// Fills in `container` of the plan's tasks. `plan.shared` is there already.
void SetContainers(const ClusterFile& file, const Placement& placement, Plan& plan,
                   Problems& problems);

// "registry/train:3 (docker)", "train (auto)"
std::string ImageText(const protocol::ContainerDescription& container);

}  // namespace tfdist::cli
