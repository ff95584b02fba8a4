// What .gitignore and .tfdistignore files say of a work folder's entries.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/deploy/ignore_file.h"

namespace tfdist::cli {

inline constexpr const char* kGitIgnoreFile = ".gitignore";
inline constexpr const char* kTfdistIgnoreFile = ".tfdistignore";

// For a walk that enters each folder, looks at what is in it, and leaves it.
class IgnoreRules {
 public:
  // Where the work folder lies in a git repository, the .gitignore files above it count, too. git
  // itself is not asked: it may not be there. Throws Error(kFiles).
  explicit IgnoreRules(const std::filesystem::path& workdir);

  // Reads the files in `folder`, which is `path` below the work folder (empty: that itself).
  void Enter(const std::filesystem::path& folder, const std::string& path);
  void Leave();

  // Whether .tfdistignore, or .gitignore, leaves an entry out (true) or brings it back (false). Of
  // nested files the inner one decides.
  [[nodiscard]] std::optional<bool> ByTfdistIgnore(const std::string& path, bool is_folder) const;
  [[nodiscard]] std::optional<bool> ByGitIgnore(const std::string& path, bool is_folder) const;
  // Whether a .tfdistignore may bring back what lies in a folder that is left out.
  [[nodiscard]] bool MayBringBack() const;

 private:
  struct Level {
    std::string base;  // path of its folder from the repository's root: "" or "a/b/"
    std::optional<IgnoreFile> git;
    std::optional<IgnoreFile> tfdist;
  };
  using File = std::optional<IgnoreFile> Level::*;

  [[nodiscard]] std::optional<bool> Ask(File file, const std::string& path, bool is_folder) const;

  std::string workdir_base_;  // of the work folder itself
  std::vector<Level> levels_;
};

}  // namespace tfdist::cli
