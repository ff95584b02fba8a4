// Which hosts ssh's configuration files can tell apart: what `ssh -G` says for one host holds for
// all that match the same `Host` patterns, if nothing else in the files depends on the name.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tfdist::ssh {

class ConfigPatterns {
 public:
  // From the text of all files that ssh reads. nullopt when they hold something else by which hosts
  // may differ (Match, CanonicalizeHostname, a file whose name depends on the host), or that is not
  // understood here.
  static std::optional<ConfigPatterns> Parse(const std::vector<std::string>& texts);

  // Equal for two names that no pattern tells apart.
  [[nodiscard]] std::string SignatureOf(std::string_view name) const;

 private:
  bool TakeLine(std::string_view line);

  std::vector<std::string> patterns_;
};

// The files that ssh has read, from what `ssh -v` writes to stderr.
std::vector<std::string> FilesRead(std::string_view errors);

// Whether ssh takes the name as it is: in lower case, no user, port or URI in it, and if it is an
// address, then in its usual spelling.
bool IsPlainHostName(const std::string& name);

// Shell-like patterns of "*" and "?", as match.c match_pattern.
bool MatchesPattern(std::string_view name, std::string_view pattern);

}  // namespace tfdist::ssh
