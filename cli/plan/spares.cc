#include "cli/plan/spares.h"

#include <algorithm>

#include "cli/plan/cluster_spec.h"

namespace tfdist::cli {

std::optional<Plan> WithSparesFor(const Plan& plan, const std::vector<std::string>& failed) {
  Plan changed = plan;
  auto& hosts = changed.hosts;
  const auto has_failed = [&](const HostPlan& host) {
    return std::ranges::find(failed, host.name) != failed.end();
  };
  std::erase_if(hosts, [&](const HostPlan& host) { return host.spare && has_failed(host); });
  for (size_t slot = 0; slot < hosts.size(); ++slot) {
    if (!has_failed(hosts[slot])) continue;
    // Spare hosts come last: no other slot's number changes.
    const auto spare = std::ranges::find_if(hosts, &HostPlan::spare);
    if (spare == hosts.end()) return std::nullopt;
    hosts[slot] = *spare;
    hosts[slot].spare = false;
    hosts.erase(spare);
  }
  changed.cluster = MakeClusterSpec(changed);
  return changed;
}

}  // namespace tfdist::cli
