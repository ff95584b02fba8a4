#include "cli/deploy/ignore_rules.h"

#include <algorithm>
#include <system_error>

#include "base/file.h"

namespace tfdist::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxIgnoreFileBytes = 1 << 20;

// As git, which does not follow a link of this name.
std::optional<IgnoreFile> ReadIgnoreFile(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(fs::symlink_status(path, error))) return std::nullopt;
  const auto content = ReadFileIfExists(path, kMaxIgnoreFileBytes);
  return content ? std::optional<IgnoreFile>(*content) : std::nullopt;
}

// The folder with .git in it, at or above `workdir`; nullopt where there is none.
std::optional<fs::path> RepositoryOf(const fs::path& workdir) {
  std::error_code error;
  for (fs::path folder = workdir;; folder = folder.parent_path()) {
    if (fs::exists(folder / ".git", error)) return folder;
    if (folder == folder.parent_path()) return std::nullopt;
  }
}

}  // namespace

IgnoreRules::IgnoreRules(const fs::path& workdir) {
  std::error_code error;
  fs::path real = fs::canonical(workdir, error);
  if (error) real = workdir.lexically_normal();
  const auto repository = RepositoryOf(real);
  if (!repository || *repository == real) return;
  fs::path folder = *repository;
  for (const fs::path& name : real.lexically_relative(*repository)) {
    levels_.push_back({workdir_base_, ReadIgnoreFile(folder / kGitIgnoreFile), std::nullopt});
    folder /= name;
    workdir_base_ += name.string() + "/";
  }
}

void IgnoreRules::Enter(const fs::path& folder, const std::string& path) {
  levels_.push_back({workdir_base_ + (path.empty() ? "" : path + "/"),
                     ReadIgnoreFile(folder / kGitIgnoreFile),
                     ReadIgnoreFile(folder / kTfdistIgnoreFile)});
}

void IgnoreRules::Leave() { levels_.pop_back(); }

std::optional<bool> IgnoreRules::Ask(File file, const std::string& path, bool is_folder) const {
  const std::string whole = workdir_base_ + path;
  for (auto level = levels_.rbegin(); level != levels_.rend(); ++level) {
    const auto& patterns = (*level).*file;
    if (!patterns) continue;
    if (const auto said = patterns->Ignores(whole.substr(level->base.size()), is_folder)) {
      return said;
    }
  }
  return std::nullopt;
}

std::optional<bool> IgnoreRules::ByTfdistIgnore(const std::string& path, bool is_folder) const {
  return Ask(&Level::tfdist, path, is_folder);
}

std::optional<bool> IgnoreRules::ByGitIgnore(const std::string& path, bool is_folder) const {
  return Ask(&Level::git, path, is_folder);
}

bool IgnoreRules::MayBringBack() const {
  return std::ranges::any_of(
      levels_, [](const Level& level) { return level.tfdist && level.tfdist->brings_back(); });
}

}  // namespace tfdist::cli
