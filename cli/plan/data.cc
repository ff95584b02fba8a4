#include "cli/plan/data.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <system_error>

#include "cli/plan/local_path.h"
#include "cli/plan/placeholders.h"

namespace tfdist::cli {
namespace {

void CheckPathOfHosts(const Located<std::string>& path, Problems& problems) {
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

// A link to a file has no content of its own to send.
std::filesystem::path WithoutLink(const std::filesystem::path& path) {
  std::error_code error;
  const bool is_link_to_file =
      std::filesystem::is_symlink(path, error) && std::filesystem::is_regular_file(path, error);
  return is_link_to_file ? std::filesystem::canonical(path) : path;
}

// What is inside of it stays out of what is sent with the work folder.
void CheckIsBesideWorkdir(const Located<std::string>& said, const DataPlan& data, const Plan& plan,
                          Problems& problems) {
  if (!plan.workdir) return;
  const auto way = plan.workdir->lexically_relative(data.source);
  if (way.empty() || *way.begin() == "..") return;
  problems.Add(said.where, fmt::format("holds the workdir {}", Quoted(plan.workdir->string())),
               "name a folder inside of it, or beside it");
}

}  // namespace

void PlanData(const ClusterFile& file, const std::filesystem::path& folder,
              const Placement& placement, Plan& plan, Problems& problems) {
  Placeholders placeholders(plan, placement.complete, problems);
  for (const auto& [name, entry] : file.data) {
    DataPlan& data = plan.data.emplace_back();
    data.name = name;
    if (entry.is_of_hosts) {
      CheckPathOfHosts(entry.path, problems);
      data.path = placeholders.Expand(entry.path, TaskOnHost());
    } else if (const auto source = FindEither(entry.path, folder, problems)) {
      data.source = WithoutLink(*source);
      CheckIsBesideWorkdir(entry.path, data, plan, problems);
    }
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
