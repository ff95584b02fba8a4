// How the hosts of a plan resolve each other's names. The tasks use the same resolvers later. Where
// the answers differ, a job mostly hangs without a message.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/plan/plan.h"
#include "wire/resolved_names.h"

namespace tfdist::cli {

// The names that the host in `slot` is asked for: its own, slot 0's, and those of the next hosts,
// so that the work grows with the hosts and not with their square; what ssh's configuration calls an alias as well. Numeric addresses and localhost
// are not asked for.
std::vector<std::string> NamesToAsk(const std::vector<HostPlan>& hosts, int slot);
// The same of all hosts.
std::vector<std::string> AllNames(const std::vector<HostPlan>& hosts);

struct NameWarning {
  std::string text;  // one line
  std::string remedy;
  bool unresolved = false;  // some host does not know some name: its tasks cannot use it
};

// `answers[i]`: what slot i has said; nullopt: nothing. At most one warning of each kind: names
// that cannot be resolved, that mean loopback on their own host while others need it, that mean two
// machines, that mean another machine than the one to which SSH has led.
std::vector<NameWarning> CompareNames(
    const std::vector<HostPlan>& hosts,
    const std::vector<std::optional<protocol::ResolvedNames>>& answers);

}  // namespace tfdist::cli
