// What each task runs: argv and environment.
#pragma once

#include "cli/plan/placement.h"
#include "cli/plan/plan.h"

namespace tfdist::cli {

// Fills in argv and env of a plan that has everything else.
void SetCommands(const ClusterFile& file, const Placement& placement, Plan& plan,
                 Problems& problems);

}  // namespace tfdist::cli
