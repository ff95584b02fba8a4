// What OpenSSH's configuration means for one host.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "cli/ssh/config/algorithms.h"

namespace tfdist::ssh {

// ssh-keygen makes no shorter RSA keys, and ssh takes none.
inline constexpr int kUsualRsaBits = 1024;

struct HostConfig {
  std::string host_name;  // to be resolved: never the alias
  std::string user;
  int port = 22;
  std::vector<std::string> identity_files;  // absolute paths; need not exist
  bool identities_only = false;
  std::vector<std::string> certificate_files;  // as identity_files
  std::string agent_socket;                    // of ssh-agent; empty: none
  std::string unset_agent;  // the variable that IdentityAgent names, where it is not set
  std::vector<std::string> user_known_hosts;
  std::vector<std::string> global_known_hosts;
  bool hash_known_hosts = false;
  bool accept_new = false;      // as the target or StrictHostKeyChecking says
  bool trusts_anybody = false;  // StrictHostKeyChecking no: tfdist does not
  int required_rsa_bits = kUsualRsaBits;
  Algorithms algorithms;
  std::chrono::seconds connect_timeout{0};  // 0: as long as we think right
  bool check_host_ip = false;               // the address's own lines of known_hosts count as well
  std::string proxy_jump;
  // Hosts with the same text here are reached through the same machine, as far as one can tell; empty: directly.
  std::string gateway;

  // Why libssh2 cannot do what the configuration asks for; empty: it can.
  std::string beyond;

  // A socket of the user's own ssh (ControlPath); empty: none is there.
  std::string control_path;

  friend bool operator==(const HostConfig&, const HostConfig&) = default;
};

}  // namespace tfdist::ssh
