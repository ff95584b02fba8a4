#include "agent/tasks/conda.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <system_error>
#include <vector>

#include "agent/files/folder_time.h"
#include "base/error.h"
#include "base/file.h"
#include "base/text.h"

namespace tfdist::agent {
namespace {

namespace fs = std::filesystem;

constexpr std::array<const char*, 4> kRootsInHome = {"miniconda3", "anaconda3", "miniforge3",
                                                     "mambaforge"};
constexpr const char* kRootOfImages = "/opt/conda";
constexpr const char* kBase = "base";
constexpr size_t kMostListBytes = 1 << 20;

// What conda itself goes by.
bool IsConda(const fs::path& prefix) {
  std::error_code error;
  return fs::is_directory(prefix / "conda-meta", error);
}

std::vector<fs::path> RootsOf(const Environment& host) {
  std::vector<fs::path> roots;
  if (const auto program = host.Get("CONDA_EXE")) {
    roots.push_back(fs::path(*program).parent_path().parent_path());
  }
  const auto home = host.Get("HOME");
  for (const char* name : kRootsInHome) {
    if (home) roots.push_back(fs::path(*home) / name);
  }
  roots.emplace_back(kRootOfImages);
  return roots;
}

// ~/.conda/environments.txt: a path a line, of every environment that conda has made for this account.
std::vector<fs::path> ListedIn(const Environment& host) {
  std::vector<fs::path> listed;
  const auto home = host.Get("HOME");
  if (!home) return listed;
  std::optional<std::string> text;
  try {
    text = ReadFileIfExists(fs::path(*home) / ".conda/environments.txt", kMostListBytes);
  } catch (const Error&) {
    return listed;
  }
  std::string_view rest = text ? std::string_view(*text) : std::string_view();
  while (!rest.empty()) {
    const std::string_view line = TakeUpTo('\n', rest);
    if (line.starts_with('/')) listed.emplace_back(line);
  }
  return listed;
}

// In the order in which a name is looked for.
std::vector<CondaEnvironment> AllOf(const Environment& host) {
  std::vector<CondaEnvironment> all;
  const auto add = [&](const std::string& name, const fs::path& prefix) {
    const bool is_known = std::ranges::find(all, prefix, &CondaEnvironment::prefix) != all.end();
    if (!is_known && IsConda(prefix)) all.push_back({name, prefix});
  };
  for (const fs::path& root : RootsOf(host)) {
    add(kBase, root);
    for (const fs::path& prefix : EntriesIn(root / "envs")) add(prefix.filename(), prefix);
  }
  for (const fs::path& prefix : ListedIn(host)) add(prefix.filename(), prefix);
  return all;
}

[[noreturn]] void FailMissing(const std::string& wanted, const std::string& task,
                              const std::vector<CondaEnvironment>& all) {
  std::vector<std::string> names;
  for (const CondaEnvironment& conda : all) names.push_back(conda.name);
  throw Error(
      Phase::kCommand,
      fmt::format("the conda environment {} of {} is not on this host", wanted, task),
      names.empty()
          ? "no conda was found: write the path of the environment, conda = \"/opt/envs/tf\""
          : fmt::format("this host has: {}", fmt::join(names, ", ")));
}

}  // namespace

CondaEnvironment FindConda(const std::string& wanted, const Environment& host,
                           const std::string& task) {
  if (wanted.starts_with('/')) {
    if (IsConda(wanted)) return {wanted, wanted};
    FailMissing(wanted, task, AllOf(host));
  }
  const std::vector<CondaEnvironment> all = AllOf(host);
  const auto found = std::ranges::find(all, wanted, &CondaEnvironment::name);
  if (found == all.end()) FailMissing(wanted, task, all);
  return *found;
}

void Activate(const CondaEnvironment& conda, Environment& environment) {
  const std::string path = environment.Get("PATH").value_or("/usr/bin:/bin");
  environment.Set("PATH", fmt::format("{}:{}", (conda.prefix / "bin").string(), path));
  environment.Set("CONDA_PREFIX", conda.prefix.string());
  environment.Set("CONDA_DEFAULT_ENV", conda.name);
  environment.Set("CONDA_SHLVL", "1");
}

}  // namespace tfdist::agent
