// Aliases of ssh's configuration as hosts of a plan.
#pragma once

#include <vector>

#include "cli/plan/plan.h"

namespace tfdist::cli {

// Sets host_name of each host that the others are to reach by an alias. A configuration that ssh refuses is an error of whoever
// connects.
void AskForHostNames(std::vector<HostPlan>& hosts, const SshOptions& ssh);

}  // namespace tfdist::cli
