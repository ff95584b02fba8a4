// A plan as a script for sbatch(1) of Slurm, in which `tfdist up` starts the same cluster file on the nodes of the script's allocation.
// Pure, as export.h.
#pragma once

#include <string>
#include <vector>

#include "cli/export/export.h"
#include "cli/plan/plan.h"

namespace tfdist::cli {

// What `up` is given there besides the file, as PlanChanges has it.
struct BatchCall {
  std::vector<std::string> settings;
  std::vector<std::string> words;
};

// A setting that puts as many nodes, with as many slots, in the place of the plan's hosts.
std::string NodesInstead(const Plan& plan);

// `there`: the same plan with that setting. Throws UsageError where tasks would not run on the allocation's nodes.
Exported BatchScript(const Plan& plan, const Plan& there, const BatchCall& call);

}  // namespace tfdist::cli
