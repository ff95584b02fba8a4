// Paths of ssh's configuration as `ssh -G` prints them: ~, % and ${} of keys stand there as they were written, and lists of
// files without their quotes. ssh_config(5), TOKENS and ENVIRONMENT VARIABLES.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace tfdist::ssh {

struct HostConfig;
struct Target;

class ConfigPaths {
 public:
  // Copies what it needs: the host's name, port, user and alias, the name that ssh was given.
  ConfigPaths(const HostConfig& host, const Target& target);

  // Throws Error(kConnect) for what ssh knows and this does not (%C, %j), an account that does not exist and a variable that is
  // not set: another file than ssh's must never be taken.
  [[nodiscard]] std::string Expand(std::string_view path) const;

 private:
  std::map<char, std::string> tokens_;
};

// The files of UserKnownHostsFile or GlobalKnownHostsFile, which `ssh -G` has expanded and printed in one line: a blank may end
// a path or be part of one. Takes what can name files that are there in one way only. Throws Error(kHostKey) otherwise: in a
// wrong file a changed key looks like a new one.
std::vector<std::string> KnownHostsFiles(std::string_view keyword, std::string_view value);

// This account's, as OpenSSH finds it: in the password file, not in the environment. Asked once.
const std::string& HomeFolder();

}  // namespace tfdist::ssh
