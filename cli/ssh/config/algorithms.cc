#include "cli/ssh/config/algorithms.h"

#include <algorithm>

#include "base/text.h"

namespace tfdist::ssh {
namespace {

std::vector<std::string> Split(std::string_view list) {
  std::vector<std::string> names;
  while (!list.empty()) names.emplace_back(TakeUpTo(',', list));
  return names;
}

std::string Joined(const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) list.append(list.empty() ? "" : ",").append(name);
  return list;
}

// An RSA key is one type with several methods of signing.
std::string TypeOf(const std::string& method) {
  return method.starts_with("rsa-sha2-") ? "ssh-rsa" : method;
}

}  // namespace

Algorithms::Algorithms()
    : key_exchanges(
          "curve25519-sha256,curve25519-sha256@libssh.org,ecdh-sha2-nistp256,ecdh-sha2-nistp384,"
          "ecdh-sha2-nistp521,diffie-hellman-group-exchange-sha256,diffie-hellman-group16-sha512,"
          "diffie-hellman-group18-sha512,diffie-hellman-group14-sha256"),
      // GCM after CTR: libssh2 1.11.1 leaks 96 bytes with it at each key exchange.
      ciphers(
          "aes128-ctr,aes192-ctr,aes256-ctr,aes128-gcm@openssh.com,aes256-gcm@openssh.com,"
          "chacha20-poly1305@openssh.com"),
      macs(
          "hmac-sha2-256-etm@openssh.com,hmac-sha2-512-etm@openssh.com,hmac-sha2-256,hmac-sha2-"
          "512"),
      host_keys(kUserKeyMethods) {}

std::string Common(std::string_view ours, std::string_view allowed) {
  const std::vector<std::string> theirs = Split(allowed);
  std::vector<std::string> common = Split(ours);
  std::erase_if(common, [&](const std::string& name) {
    return std::ranges::find(theirs, name) == theirs.end();
  });
  return Joined(common);
}

bool HasAll(std::string_view list, std::string_view all) { return Common(all, list) == all; }

bool IsKeyType(std::string_view type) {
  const std::vector<std::string> methods = Split(kUserKeyMethods);
  return std::ranges::any_of(methods,
                             [&](const std::string& method) { return TypeOf(method) == type; });
}

std::string HostKeyMethods(const std::vector<std::string>& first_key_types,
                           const std::string& methods) {
  std::vector<std::string> ordered = Split(methods);
  std::stable_partition(ordered.begin(), ordered.end(), [&](const std::string& method) {
    return std::ranges::find(first_key_types, TypeOf(method)) != first_key_types.end();
  });
  return Joined(ordered);
}

}  // namespace tfdist::ssh
