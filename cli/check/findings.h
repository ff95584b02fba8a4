// What is wrong on the hosts of a plan, from what they have answered: pure, no host is asked here.
#pragma once

#include <vector>

#include "cli/check/finding.h"
#include "cli/check/host_check.h"
#include "cli/plan/plan.h"

namespace tfdist::cli {

// Errors first, each kind in the order of the hosts. One cause is told once: what follows from it
// is left out, as far as that can be seen. `runs_already`: the job that has the name is of this very plan.
std::vector<Finding> FindingsOf(const Plan& plan, const std::vector<HostReport>& reports,
                                bool runs_already = false);

}  // namespace tfdist::cli
