#include "cli/plan/host_env.h"

#include <string_view>

#include "cli/plan/placeholders.h"

namespace tfdist::cli {
namespace {

bool NamesATask(std::string_view text) {
  for (size_t at = text.find('{'); at != text.npos; at = text.find('{', at + 1)) {
    const std::string_view rest = text.substr(at);
    const bool of_shell = at > 0 && text[at - 1] == '$';
    if (rest.starts_with("{{")) {
      ++at;
    } else if (!of_shell && !rest.starts_with("{env:")) {
      return true;
    }
  }
  return false;
}

}  // namespace

void SetHostEnv(const ClusterFile& file, const Placement& placement, Plan& plan,
                Problems& problems) {
  Placeholders placeholders(plan, placement.complete, problems);
  for (size_t slot = 0; slot < plan.hosts.size(); ++slot) {
    for (const auto& [name, value] : placement.hosts[slot].env) {
      if (file.given_env.contains(name)) continue;
      if (NamesATask(value.value)) {
        problems.Add(value.where, "of placeholders, only ~/ and {env:NAME} may stand here");
        continue;
      }
      plan.hosts[slot].env.emplace_back(name, placeholders.Expand(value, TaskOnHost()));
    }
  }
}

}  // namespace tfdist::cli
