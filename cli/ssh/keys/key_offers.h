// Which keys are shown to a host, and in which order.
#pragma once

#include <string>
#include <vector>

#include "cli/ssh/keys/identity_file.h"
#include "cli/ssh/keys/ssh_agent.h"

namespace tfdist::ssh {

// One key; `in_agent`: the agent signs with it, else `path` is read.
struct KeyOffer {
  bool in_agent = false;
  std::string blob;   // may be empty for a file
  std::string path;   // of the file, if there is one
  std::string label;  // for people: type, fingerprint, where it is from
};

struct KeyOffers {
  std::vector<KeyOffer> offers;
  std::vector<std::string> left_out;  // "/home/u/.ssh/id_rsa (encrypted, and not in ssh-agent)"
  // Why ssh(1) could do more with them (a security key, a certificate, a file with the public key); empty: it could not.
  std::string beyond;
};

// sshconnect2.c pubkey_prepare has the order.
KeyOffers ArrangeOffers(const std::vector<AgentKey>& agent_keys,
                        const std::vector<IdentityFile>& files, bool identities_only);

// RequiredRSASize: ssh does not offer RSA keys with fewer bits. It leads to ssh where a file does not tell which key it has.
void LeaveOutShortRsaKeys(KeyOffers& keys, int required_bits);

}  // namespace tfdist::ssh
