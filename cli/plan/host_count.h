// Hosts as a user counts them: one with several slots is one.
#pragma once

#include <cstddef>
#include <vector>

#include "cli/plan/plan.h"

namespace tfdist::cli {

// `hosts`: by slot.
size_t CountHosts(const std::vector<HostPlan>& hosts);

}  // namespace tfdist::cli
