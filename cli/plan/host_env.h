// Variables of tasks that a host sets, where machines differ.
#pragma once

#include "cli/plan/placement.h"
#include "cli/plan/plan.h"

namespace tfdist::cli {

// Fills in the env of each of `plan`'s hosts. Of placeholders, `~/` and {env:NAME} may stand there: a spare host's env is that of
// any task. --env goes over it.
void SetHostEnv(const ClusterFile& file, const Placement& placement, Plan& plan,
                Problems& problems);

}  // namespace tfdist::cli
