// Paths of ssh's configuration as `ssh -G` prints them: ~, % and ${} of keys stand there as they were written, and lists of
// files without their quotes. What needs more than this account's home folder is for ssh.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tfdist::ssh {

// nullopt for a path with % or $ in it, of another account's home, or from no root.
std::optional<std::string> PlainPath(std::string_view path);

// The files of UserKnownHostsFile or GlobalKnownHostsFile, which `ssh -G` has expanded and printed in one line: a blank may end
// a path or be part of one. nullopt where that is not clear: in a wrong file a changed key looks like a new one.
std::optional<std::vector<std::string>> KnownHostsFiles(std::string_view value);

// This account's, as OpenSSH finds it: in the password file, not in the environment. Asked once.
const std::string& HomeFolder();

}  // namespace tfdist::ssh
