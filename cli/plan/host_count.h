// Hosts as a user counts them: one with several slots is one.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cli/plan/plan.h"

namespace tfdist::cli {

// `hosts`: by slot.
size_t CountHosts(const std::vector<HostPlan>& hosts);

// "h1, h2 and 3 more", each name once; of more than `most` hosts, the first `most`.
std::string HostNames(const std::vector<std::string>& by_slot, size_t most);

}  // namespace tfdist::cli
