// [setup] in a plan: what each host runs once before the job's tasks start.
#pragma once

#include "cli/plan/placement.h"
#include "cli/plan/plan.h"

namespace tfdist::cli {

// Fills in plan.set_up, before the tasks' texts are expanded: {setup} is theirs from then on. Of placeholders {setup}, {shared},
// {job}, {env:NAME} and ~/ may stand in its command: it is no task's. Its environment is that of [task], but for variables
// that hold others.
void PlanSetUp(const ClusterFile& file, const Placement& placement, Plan& plan, Problems& problems);

}  // namespace tfdist::cli
