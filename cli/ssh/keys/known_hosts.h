// Whether a host's key is the one that known_hosts has for it. Only a plain line with an equal key says so here; ssh(1) judges
// whatever else there is (sshconnect.c check_host_key), and has the words for it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/ssh/config/host_config.h"
#include "cli/ssh/keys/known_hosts_file.h"

namespace tfdist::ssh {

class KnownHosts {
 public:
  // Looks `host` up in its known_hosts files. Throws as ReadKnownHosts.
  static KnownHosts Load(const HostConfig& host);

  // Types of the keys that the host may show ("ssh-rsa"): to be negotiated first, so that a host
  // with several keys shows one that is known.
  [[nodiscard]] std::vector<std::string> KnownTypes() const;

  // Why ssh(1) must judge the host's key: known_hosts has it in a form that only ssh understands. Empty: it need not.
  [[nodiscard]] std::string WhyBeyondLibrary() const;

  // Empty for the host's known key, and for that of an unknown host where the configuration's `accept_new` is set: that is added to
  // the first of the user's files. Else why ssh must judge. `address`: the numeric one that a direct connection has reached;
  // known_hosts may have another key for it, which counts where the configuration says CheckHostIP.
  [[nodiscard]] std::string WhyNotKnown(std::string_view blob, const std::string& address) const;

 private:
  HostConfig host_;
  std::string name_;  // as known_hosts writes it: "[10.0.0.1]:2200"
  KnownKeys known_;
  // Lines without a port, for a port that is not 22. Of these OpenSSH takes an equal key.
  bool is_known_without_port_ = false;
};

}  // namespace tfdist::ssh
