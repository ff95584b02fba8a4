// OpenSSH's configuration of a host, as ssh -G prints it: so it has the same meaning here as for
// ssh.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "cli/ssh/config/algorithms.h"
#include "cli/ssh/config/target.h"

namespace tfdist::ssh {

struct HostConfig {
  std::string host_name;  // to be resolved: never the alias
  std::string user;
  int port = 22;
  std::vector<std::string> identity_files;  // absolute paths; need not exist
  bool identities_only = false;
  std::vector<std::string> certificate_files;  // as identity_files
  std::string agent_socket;                    // of ssh-agent; empty: none
  std::vector<std::string> user_known_hosts;
  std::vector<std::string> global_known_hosts;
  std::string host_key_alias;
  bool hash_known_hosts = false;
  bool accept_new = false;      // as the target or StrictHostKeyChecking says
  bool trusts_anybody = false;  // StrictHostKeyChecking no: tfdist does not
  int required_rsa_bits = 0;
  Algorithms algorithms;
  bool check_host_ip = false;  // the address's own lines of known_hosts count as well
  std::string proxy_jump;
  std::string proxy_command;  // as a shell gets it: what % stands for is put in
  // Hosts with the same text here are reached through the same machine, as far as one can tell; empty: directly.
  std::string gateway;

  // Why libssh2 cannot do what the configuration asks for; empty: it can.
  std::string beyond;

  // Where the user's own ssh would share a connection (ControlPath), for openssh alone; empty: nowhere.
  std::string control_path;

  friend bool operator==(const HostConfig&, const HostConfig&) = default;
};

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
bool IsUsed(std::string_view keyword, const Target& target);

// ~/.ssh/config of this account, as OpenSSH sees it.
std::filesystem::path UserConfigFile();

}  // namespace tfdist::ssh
