// Spare hosts in the place of hosts that cannot be brought up when a job starts.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/plan/plan.h"

namespace tfdist::cli {

// The plan without the hosts named `failed`: each of them that has tasks gives them to the next spare host that has not
// failed. nullopt: there are too few.
std::optional<Plan> WithSparesFor(const Plan& plan, const std::vector<std::string>& failed);

}  // namespace tfdist::cli
