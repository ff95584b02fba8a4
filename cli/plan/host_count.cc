#include "cli/plan/host_count.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <string_view>

namespace tfdist::cli {

size_t CountHosts(const std::vector<HostPlan>& hosts) {
  std::set<std::string_view> names;
  for (const HostPlan& host : hosts) names.insert(host.name);
  return names.size();
}

std::string HostNames(const std::vector<std::string>& by_slot, size_t most) {
  std::vector<std::string_view> names;
  for (const std::string& name : by_slot) {
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  const size_t shown = std::min(names.size(), most);
  const std::string more =
      names.size() > shown ? fmt::format(" and {} more", names.size() - shown) : "";
  names.resize(shown);
  return fmt::format("{}{}", fmt::join(names, ", "), more);
}

}  // namespace tfdist::cli
