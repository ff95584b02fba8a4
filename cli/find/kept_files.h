// What jobs of one name keep on hosts ({keep}), where no job is left whose agent could bring it home.
#pragma once

#include <string>
#include <vector>

#include "cli/plan/plan.h"

namespace tfdist::cli {

// A remedy: how those files are reached. Empty: there are none, or no host says so. Asks all `hosts`.
std::string HowToReachKept(const std::vector<HostPlan>& hosts, const SshOptions& ssh,
                           const std::string& name);

}  // namespace tfdist::cli
