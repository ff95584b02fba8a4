// Which keys are shown to a host, and in which order.
#pragma once

#include <string>
#include <vector>

#include "cli/ssh/config/host_config.h"
#include "cli/ssh/keys/identity_file.h"
#include "cli/ssh/keys/ssh_agent.h"

namespace tfdist::ssh {

// One key; `in_agent`: the agent signs with it, else `path` is read.
struct KeyOffer {
  bool in_agent = false;
  std::string blob;  // may be empty for a file
  std::string path;  // of the file, if there is one
};

struct KeyOffers {
  std::vector<KeyOffer> offers;
  // Why ssh(1) could do more with them, or refuses one (a security key, a certificate, a file with the public key); empty: libssh2
  // can do as much.
  std::string beyond;
};

// sshconnect2.c pubkey_prepare has the order. Without files that others may read, and encrypted ones that the agent does not hold.
KeyOffers ArrangeOffers(const std::vector<AgentKey>& agent_keys,
                        const std::vector<IdentityFile>& files, const HostConfig& host);

}  // namespace tfdist::ssh
