// OpenSSH's configuration of a host, as ssh -G prints it: so it has the same meaning here as for
// ssh.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "cli/ssh/config/host_config.h"
#include "cli/ssh/config/target.h"

namespace tfdist::ssh {

// What ssh -G writes.
struct SshAnswer {
  std::string output;
  std::string errors;
};
enum class SshWords { kFew, kMany };  // kMany: -v, which names each file that it reads

// Runs ssh -G. Throws Error(kConnect) when ssh refuses its configuration.
SshAnswer AskSsh(const Target& target, TimePoint deadline, SshWords words);

// Throws as AskSsh and ParseConfig.
HostConfig ReadConfig(const Target& target, TimePoint deadline);

// The parser of its output; paths are expanded with this account's home folder and SSH_AUTH_SOCK. For the user's ssh program
// it leaves out what that reads itself.
HostConfig ParseConfig(std::string_view output, const Target& target);

// Whether ParseConfig looks at lines of this keyword (in lower case).
bool IsUsed(std::string_view keyword);

// ~/.ssh/config of this account, as OpenSSH sees it.
std::filesystem::path UserConfigFile();

}  // namespace tfdist::ssh
