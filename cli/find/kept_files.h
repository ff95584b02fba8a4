// What jobs of one name keep on hosts ({keep}), where no job is left whose agent could bring it home.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/plan/plan.h"

namespace tfdist::cli {

// A remedy: how those files are reached. Empty: there are none, or no host says so. Asks all `hosts`.
std::string HowToReachKept(const std::vector<HostPlan>& hosts, const SshOptions& ssh,
                           const std::string& name);

// What this user says to the hosts of a plan whose tasks name {keep}; nullopt: none does. `take`: files of others are taken over.
std::optional<protocol::KeptClaim> ClaimToKept(const Plan& plan, bool take);

}  // namespace tfdist::cli
