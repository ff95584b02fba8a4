// OpenSSH's configuration of a host, as ssh -G prints it: so it has the same meaning here as for
// ssh.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "cli/ssh/target.h"

namespace tfdist::ssh {

struct HostConfig {
  std::string host_name;  // to be resolved: never the alias
  std::string user;
  int port = 22;
  std::vector<std::string> identity_files;  // absolute paths; need not exist
  bool identities_only = false;
  std::string agent_socket;  // of ssh-agent; empty: none
  std::vector<std::string> user_known_hosts;
  std::vector<std::string> global_known_hosts;
  std::string host_key_alias;
  bool hash_known_hosts = false;
  std::string proxy_jump;
};

// Runs ssh -G. Throws Error(kConnect) when ssh refuses its configuration, and for what tfdist
// cannot do yet (ProxyCommand, RevokedHostKeys): ignoring it would reach another machine, or trust
// a key too many.
HostConfig ReadConfig(const Target& target, TimePoint deadline);

// The parser of its output; paths are expanded with this account's home folder and SSH_AUTH_SOCK.
HostConfig ParseConfig(std::string_view output, const Target& target);

}  // namespace tfdist::ssh
