#include "cli/deploy/git_state.h"

#include "base/error.h"
#include "base/subprocess.h"
#include "base/text.h"

namespace tfdist::cli {
namespace {

// nullopt: git fails.
std::optional<std::string> Ask(const std::filesystem::path& folder,
                               const std::vector<std::string>& words, TimePoint deadline) {
  // Nothing is written for it, not even an index that is fresher.
  std::vector<std::string> argv = {"git", "--no-optional-locks", "-C", folder.string()};
  argv.insert(argv.end(), words.begin(), words.end());
  try {
    const ProgramResult result = RunProgram({.argv = std::move(argv)}, deadline);
    if (result.exit_code != 0) return std::nullopt;
    return result.output;
  } catch (const Error&) {  // not installed
    return std::nullopt;
  }
}

}  // namespace

std::optional<GitState> GitStateOf(const std::filesystem::path& folder, TimePoint deadline) {
  const auto commit = Ask(folder, {"rev-parse", "--verify", "HEAD"}, deadline);
  if (!commit) return std::nullopt;
  const auto changes = Ask(folder, {"status", "--porcelain", "--", "."}, deadline);
  if (!changes) return std::nullopt;
  std::string_view line = *commit;
  return GitState{std::string(TakeUpTo('\n', line)), !changes->empty()};
}

}  // namespace tfdist::cli
