// What libssh2 has, and what ssh's configuration lets it use.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tfdist::ssh {

// Lists with commas, as ssh -G prints them and libssh2 takes them. By default all that tfdist uses: only algorithms that
// OpenSSH offers today, so no CBC, no SHA-1 and no DSA.
struct Algorithms {
  std::string key_exchanges;
  std::string ciphers;
  std::string macs;
  std::string host_keys;  // methods of signing: an RSA key has several

  Algorithms();
  friend bool operator==(const Algorithms&, const Algorithms&) = default;
};

// Those of `ours` that `allowed` has too, in the order of `ours`.
std::string Common(std::string_view ours, std::string_view allowed);

// Whether `list` has each of `all`.
bool HasAll(std::string_view list, std::string_view all);

// Of the user's keys.
inline constexpr std::string_view kUserKeyMethods =
    "ssh-ed25519,ecdsa-sha2-nistp256,ecdsa-sha2-nistp384,ecdsa-sha2-nistp521,rsa-sha2-512,"
    "rsa-sha2-256";

// Whether it is a type of keys, of hosts or users, that libssh2 has.
bool IsKeyType(std::string_view type);

// `methods` for libssh2, those of `first_key_types` ("ssh-rsa") first.
std::string HostKeyMethods(const std::vector<std::string>& first_key_types,
                           const std::string& methods);

}  // namespace tfdist::ssh
