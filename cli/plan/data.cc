#include "cli/plan/data.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "cli/plan/placeholders.h"

namespace tfdist::cli {
namespace {

void CheckPath(const Located<std::string>& path, Problems& problems) {
  for (const std::string_view word : PlaceholdersIn(path.value)) {
    if (word.starts_with("env:")) continue;
    problems.Add(path.where, fmt::format("{{{}}} stands for nothing here", word),
                 "of placeholders, only ~/ and {env:NAME} may stand in a path of data");
  }
  if (path.value.find_first_of(",\"") != path.value.npos) {
    problems.Add(path.where, "holds a comma or a quote, which no container engine takes in a path",
                 "a link on the hosts has another name");
  }
}

}  // namespace

void PlanData(const ClusterFile& file, const Placement& placement, Plan& plan, Problems& problems) {
  Placeholders placeholders(plan, placement.complete, problems);
  for (const auto& [name, entry] : file.data) {
    CheckPath(entry.path, problems);
    plan.data.push_back({name, placeholders.Expand(entry.path, TaskOnHost())});
  }
}

std::vector<protocol::DataDescription> DataOf(const Plan& plan,
                                              const std::vector<protocol::TaskDescription>& tasks) {
  std::vector<protocol::DataDescription> described;
  for (const DataPlan& data : plan.data) {
    const std::string path = protocol::DataPath(data.name);
    const bool is_named = std::ranges::any_of(
        tasks, [&](const auto& task) { return protocol::NamesPath(task, path); });
    if (!is_named) continue;
    auto& one = described.emplace_back();
    one.name = data.name;
    one.path = data.path;
  }
  return described;
}

}  // namespace tfdist::cli
