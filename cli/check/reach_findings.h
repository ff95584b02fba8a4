// Connections that do not come about, put together by their probable cause.
#pragma once

#include <vector>

#include "cli/check/finding.h"
#include "cli/check/host_check.h"
#include "cli/plan/plan.h"

namespace tfdist::cli {

// One finding for a host that reaches no other; then one for each host and set of ports that some
// others cannot connect to for the same reason, with a remedy: the line for its firewall, say. What
// the names' check tells already (a name that cannot be resolved) is left out.
std::vector<Finding> ReachFindings(const Plan& plan, const std::vector<HostReport>& reports);

}  // namespace tfdist::cli
