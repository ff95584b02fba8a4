#include "cli/plan/set_up.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "cli/plan/placeholders.h"

namespace tfdist::cli {
namespace {

// The first placeholder that stands for something of a task or of the job's own folder.
std::optional<std::string> ForeignWord(std::string_view text) {
  for (const std::string_view word : PlaceholdersIn(text)) {
    const bool is_known =
        word == "setup" || word == "shared" || word == "job" || word.starts_with("env:");
    if (!is_known) return std::string(word);
  }
  return std::nullopt;
}

std::vector<protocol::Text> CommandOf(const SetUpTable& table, Placeholders& placeholders,
                                      Problems& problems) {
  std::vector<protocol::Text> argv;
  for (const Located<std::string>& word : table.command) {
    if (const auto foreign = ForeignWord(word.value)) {
      problems.Add(word.where, fmt::format("{{{}}} stands for nothing here", *foreign),
                   "{setup}, {shared}, {job}, {env:NAME} and ~/ may stand in a set-up's command");
      continue;
    }
    argv.push_back(placeholders.Expand(word, TaskOnHost()));
  }
  return argv;
}

// As task_commands.cc has it: the first counts.
std::vector<std::pair<std::string, protocol::Text>> EnvOf(const ClusterFile& file,
                                                          Placeholders& placeholders) {
  std::map<std::string, protocol::Text> env;
  for (const auto& [name, value] : file.given_env) env.try_emplace(name, value);
  for (const auto& [name, value] : file.task.env) {
    if (env.contains(name) || ForeignWord(value.value)) continue;
    env.emplace(name, placeholders.Expand(value, TaskOnHost()));
  }
  for (const std::string& name : file.task.env_from) {
    const char* value = getenv(name.c_str());  // NOLINT(concurrency-mt-unsafe)
    if (value != nullptr) env.try_emplace(name, std::string(value));
  }
  env.try_emplace("PYTHONUNBUFFERED", "1");  // its output comes as it goes
  return {env.begin(), env.end()};
}

}  // namespace

void PlanSetUp(const ClusterFile& file, const Placement& placement, Plan& plan,
               Problems& problems) {
  if (!file.set_up) return;
  plan.set_up.emplace();
  Placeholders placeholders(plan, placement.complete, problems);
  plan.set_up->argv = CommandOf(*file.set_up, placeholders, problems);
  plan.set_up->env = EnvOf(file, placeholders);
  plan.set_up->timeout_ms = file.set_up->timeout_ms;
  for (const Located<std::string>& input : file.set_up->inputs) {
    if (!file.workdir) {
      problems.Add(input.where, "counts from the work folder, and [task] has no workdir",
                   "write workdir = \".\" in [task] (--workdir .)");
    }
    plan.set_up->inputs.push_back(std::filesystem::path(input.value).lexically_normal().string());
  }
}

}  // namespace tfdist::cli
