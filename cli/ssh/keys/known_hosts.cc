#include "cli/ssh/keys/known_hosts.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/text.h"
#include "cli/ssh/keys/known_hosts_append.h"
#include "cli/ssh/keys/public_key.h"

namespace tfdist::ssh {
namespace {

constexpr int kDefaultPort = 22;

KnownKeys FindInAll(const std::string& name, const HostConfig& host) {
  KnownKeys all;
  for (const auto* files : {&host.user_known_hosts, &host.global_known_hosts}) {
    for (const std::string& file : *files) all.Add(ReadKnownHosts(file)->Find(name));
  }
  return all;
}

std::string WithPort(const std::string& name, int port) {
  return port == kDefaultPort ? name : fmt::format("[{}]:{}", name, port);
}

}  // namespace

KnownHosts KnownHosts::Load(const HostConfig& host) {
  KnownHosts known;
  known.host_ = host;
  const std::string name = LowerCase(host.host_name);
  known.name_ = WithPort(name, host.port);
  known.known_ = FindInAll(known.name_, host);
  known.is_known_without_port_ = host.port != kDefaultPort && !FindInAll(name, host).empty();
  return known;
}

std::vector<std::string> KnownHosts::KnownTypes() const {
  std::vector<std::string> types;
  for (const KnownKey& key : known_.keys) types.push_back(key.type);
  return types;
}

std::string KnownHosts::WhyBeyondLibrary() const {
  if (!known_.odd.empty()) return known_.odd + " is for ssh to judge";
  if (!known_.empty()) return "";
  return is_known_without_port_ ? "known_hosts has it without its port" : "";
}

std::string KnownHosts::WhyNotKnown(std::string_view blob, const std::string& address) const {
  if (KeyType(blob) == "ssh-rsa" && RsaBits(blob) < host_.required_rsa_bits) {
    return "its RSA key is short";
  }
  if (host_.check_host_ip && !address.empty() && address != host_.host_name) {
    const KnownKeys of_address = FindInAll(WithPort(address, host_.port), host_);
    if (!of_address.empty() && !of_address.Have(blob)) {
      return "known_hosts has another key for " + address;
    }
  }
  if (known_.Have(blob)) return "";
  if (!known_.empty()) return "its key is not the one in known_hosts";
  if (!host_.accept_new) return "known_hosts does not have it";
  try {
    AppendKnownHost(host_.user_known_hosts, name_, blob, host_.hash_known_hosts);
  } catch (const Error& error) {
    return error.cause();  // ssh goes on without
  }
  return "";
}

}  // namespace tfdist::ssh
