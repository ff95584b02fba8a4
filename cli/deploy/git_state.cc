#include "cli/deploy/git_state.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/subprocess.h"
#include "base/text.h"

namespace tfdist::cli {
namespace {

// nullopt: git fails.
std::optional<std::string> Ask(const std::filesystem::path& folder,
                               const std::vector<std::string>& words, TimePoint deadline) {
  // Nothing is written for it, not even an index that is fresher.
  std::vector<std::string> argv = {"git", "--no-optional-locks", "-c", "core.fsmonitor=false",
                                   "-C",  folder.string()};
  argv.insert(argv.end(), words.begin(), words.end());
  try {
    const ProgramResult result = RunProgram({.argv = std::move(argv)}, deadline);
    if (result.exit_code != 0) return std::nullopt;
    return result.output;
  } catch (const Error&) {  // not installed
    return std::nullopt;
  }
}

// Options that make git run none of the programs that the folder's own configuration names for files (gitattributes(5)). The
// folder may have come from anywhere, and nobody expects `up` to run them. nullopt: there are no such options.
std::optional<std::vector<std::string>> WithoutFilters(const std::filesystem::path& folder,
                                                       TimePoint deadline) {
  std::vector<std::string> options;
  // It fails where there is none.
  const std::string names =
      Ask(folder, {"config", "--name-only", "--get-regexp", "^filter\\."}, deadline).value_or("");
  for (std::string_view rest = names; !rest.empty();) {
    const std::string_view name = TakeUpTo('\n', rest);
    if (name.find('=') != name.npos) return std::nullopt;  // -c would take another name from it
    const std::string_view value = name.ends_with(".required") ? "false" : "";
    options.insert(options.end(), {"-c", fmt::format("{}={}", name, value)});
  }
  return options;
}

}  // namespace

std::optional<GitState> GitStateOf(const std::filesystem::path& folder, TimePoint deadline) {
  const auto commit = Ask(folder, {"rev-parse", "--verify", "HEAD"}, deadline);
  if (!commit) return std::nullopt;
  auto status = WithoutFilters(folder, deadline);
  if (!status) return std::nullopt;
  // A submodule's own configuration would count inside of it.
  status->insert(status->end(), {"status", "--porcelain", "--ignore-submodules=dirty", "--", "."});
  const auto changes = Ask(folder, *status, deadline);
  if (!changes) return std::nullopt;
  std::string_view line = *commit;
  return GitState{std::string(TakeUpTo('\n', line)), !changes->empty()};
}

}  // namespace tfdist::cli
