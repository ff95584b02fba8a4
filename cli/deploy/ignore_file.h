// One file of ignore patterns, read as git reads .gitignore.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tfdist::cli {

class IgnoreFile {
 public:
  // Source of the grammar: gitignore(5); git's dir.c, add_patterns_from_buffer.
  explicit IgnoreFile(std::string_view content);

  // `path` is below the folder that holds the file. The last pattern that matches decides: true,
  // it is ignored; false, "!pattern" brings it back. nullopt: no pattern matches. That a folder
  // above is ignored is the caller's matter.
  [[nodiscard]] std::optional<bool> Ignores(const std::string& path, bool is_folder) const;
  // Whether anything is brought back by "!pattern".
  [[nodiscard]] bool brings_back() const;

 private:
  struct Pattern {
    std::string text;
    bool negated = false;
    bool only_folders = false;
    bool whole_path = false;  // it has a slash: matched against the path, not against the last name
  };

  void AddLine(std::string_view line);

  std::vector<Pattern> patterns_;
};

// git's wildmatch with WM_PATHNAME: only "**" between slashes matches a slash.
bool WildMatch(const std::string& pattern, const std::string& text);

}  // namespace tfdist::cli
