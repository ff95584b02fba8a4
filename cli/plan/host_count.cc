#include "cli/plan/host_count.h"

#include <set>
#include <string_view>

namespace tfdist::cli {

size_t CountHosts(const std::vector<HostPlan>& hosts) {
  std::set<std::string_view> names;
  for (const HostPlan& host : hosts) names.insert(host.name);
  return names.size();
}

}  // namespace tfdist::cli
