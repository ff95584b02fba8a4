// Whether a host's key is the one that known_hosts has for it, judged as OpenSSH judges (sshconnect.c check_host_key).
// libssh2's own reader overlooks @revoked: known_hosts_file.h finds the lines.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/ssh/config/openssh_config.h"
#include "cli/ssh/keys/known_hosts_file.h"

namespace tfdist::ssh {

struct Verdict {
  enum class Kind { kKnown, kUnknown, kChanged, kRevoked };
  Kind kind = Kind::kUnknown;
  const KnownKey* line = nullptr;  // that decided; points into the KnownKeys judged
};

// A key that differs from all known ones is "changed" even when it is of another type: a host that
// is known cannot become a new one by hiding its old key.
Verdict Judge(const KnownKeys& known, std::string_view blob);

class KnownHosts {
 public:
  // Looks `host` up in its known_hosts files. Throws as ReadKnownHosts.
  static KnownHosts Load(const HostConfig& host);

  // Types of the keys that the host may show ("ssh-rsa"): to be negotiated first, so that a host
  // with several keys shows one that is known.
  [[nodiscard]] std::vector<std::string> KnownTypes() const;

  // What only ssh(1) knows: a certificate authority for the host's keys. Empty: nothing.
  [[nodiscard]] std::string WhyBeyondLibrary() const;

  // Throws Error(kHostKey) unless `blob` is the host's known key, or the host is unknown and the configuration's
  // `accept_new` is set: then its key is added to the first of the user's files. An RSA key that is too short for the
  // configuration is refused as well.
  void Check(std::string_view blob) const;

  // Where the configuration says CheckHostIP: throws Error(kHostKey) if known_hosts has another key for the numeric `address`
  // that a direct connection has reached.
  void CheckAddress(std::string_view blob, const std::string& address) const;

 private:
  [[noreturn]] void RefuseChanged(std::string_view blob, const KnownKey& line) const;
  [[noreturn]] void RefuseRevoked(std::string_view blob, const KnownKey& line) const;
  [[noreturn]] void RefuseUnknown(std::string_view blob) const;

  HostConfig host_;
  std::string name_;  // as known_hosts writes it: "[10.0.0.1]:2200"
  KnownKeys by_name_;
  KnownKeys by_host_;  // for a port that is not 22: lines without a port, of which OpenSSH takes an
                       // equal key
};

}  // namespace tfdist::ssh
