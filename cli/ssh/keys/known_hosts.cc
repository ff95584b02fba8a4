#include "cli/ssh/keys/known_hosts.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "cli/ssh/config/host_key_words.h"
#include "cli/ssh/keys/known_hosts_append.h"
#include "cli/ssh/keys/public_key.h"

namespace tfdist::ssh {
namespace {

using Marker = KnownKey::Marker;

constexpr int kDefaultPort = 22;

KnownKeys FindInAll(const std::string& name, const HostConfig& host) {
  KnownKeys all;
  for (const auto* files : {&host.user_known_hosts, &host.global_known_hosts}) {
    for (const std::string& file : *files) {
      KnownKeys found = ReadKnownHosts(file)->Find(name);
      std::move(found.begin(), found.end(), std::back_inserter(all));
    }
  }
  return all;
}

bool HasOwnPort(const HostConfig& host) {
  return host.host_key_alias.empty() && host.port != kDefaultPort;
}

std::string WithPort(const std::string& name, int port) {
  return port == kDefaultPort ? name : fmt::format("[{}]:{}", name, port);
}

std::string NameInKnownHosts(const HostConfig& host) {
  if (!host.host_key_alias.empty()) return host.host_key_alias;
  return WithPort(LowerCase(host.host_name), host.port);
}

}  // namespace

Verdict Judge(const KnownKeys& known, std::string_view blob) {
  Verdict verdict;
  for (const KnownKey& key : known) {
    const bool same = key.blob == blob;
    if (key.marker == Marker::kRevoked && same) return {Verdict::Kind::kRevoked, &key};
    if (key.marker != Marker::kNone) continue;
    if (same) verdict = {Verdict::Kind::kKnown, &key};
    if (verdict.line == nullptr) verdict = {Verdict::Kind::kChanged, &key};
  }
  return verdict;
}

KnownHosts KnownHosts::Load(const HostConfig& host) {
  KnownHosts known;
  known.host_ = host;
  known.name_ = NameInKnownHosts(host);
  known.by_name_ = FindInAll(known.name_, host);
  if (HasOwnPort(host)) known.by_host_ = FindInAll(LowerCase(host.host_name), host);
  return known;
}

std::vector<std::string> KnownHosts::KnownTypes() const {
  std::vector<std::string> types;
  for (const KnownKeys* keys : {&by_name_, &by_host_}) {
    for (const KnownKey& key : *keys) {
      if (key.marker == Marker::kNone) types.push_back(key.type);
    }
  }
  return types;
}

std::string KnownHosts::WhyBeyondLibrary() const {
  const auto is_authority = [](const KnownKey& key) { return key.marker == Marker::kAuthority; };
  // ssh looks for the name without its port, too.
  const bool has_authority =
      std::ranges::any_of(by_name_, is_authority) || std::ranges::any_of(by_host_, is_authority);
  return has_authority ? "known_hosts has a @cert-authority for it" : "";
}

void KnownHosts::Check(std::string_view blob) const {
  const size_t bits = RsaBits(blob);
  if (bits > 0 && bits < static_cast<size_t>(host_.required_rsa_bits)) {
    throw Error(Phase::kHostKey,
                fmt::format("its RSA key has {} bits; RequiredRSASize of ssh's configuration is {}",
                            bits, host_.required_rsa_bits),
                "the host needs a new host key");
  }
  const Verdict verdict = Judge(by_name_, blob);
  switch (verdict.kind) {
    case Verdict::Kind::kKnown:
      return;
    case Verdict::Kind::kChanged:
      RefuseChanged(blob, *verdict.line);
    case Verdict::Kind::kRevoked:
      RefuseRevoked(blob, *verdict.line);
    case Verdict::Kind::kUnknown:
      break;
  }
  const Verdict without_port = Judge(by_host_, blob);
  if (without_port.kind == Verdict::Kind::kKnown) return;
  if (without_port.kind == Verdict::Kind::kRevoked) RefuseRevoked(blob, *without_port.line);
  if (!host_.accept_new) RefuseUnknown(blob);
  AppendKnownHost(host_.user_known_hosts, name_, blob, host_.hash_known_hosts);
}

void KnownHosts::CheckAddress(std::string_view blob, const std::string& address) const {
  if (!host_.check_host_ip || address == host_.host_name) return;
  const KnownKeys of_address = FindInAll(WithPort(address, host_.port), host_);
  const Verdict verdict = Judge(of_address, blob);
  if (verdict.kind == Verdict::Kind::kChanged) RefuseChanged(blob, *verdict.line);
  if (verdict.kind == Verdict::Kind::kRevoked) RefuseRevoked(blob, *verdict.line);
}

void KnownHosts::RefuseChanged(std::string_view blob, const KnownKey& line) const {
  throw Error(
      Phase::kHostKey,
      fmt::format(
          "the key of {} differs from {} line {}: it shows {} {}, known is {} {}; somebody may be "
          "listening in",
          name_, line.file, line.line, KeyType(blob), Fingerprint(blob), line.type,
          Fingerprint(line.blob)),
      fmt::format(
          "ask who runs the host; if its key was changed on purpose: ssh-keygen -f '{}' -R '{}'",
          line.file, name_));
}

void KnownHosts::RefuseRevoked(std::string_view blob, const KnownKey& line) const {
  throw Error(Phase::kHostKey,
              fmt::format("the key of {} ({} {}) is marked as revoked: {} line {}", name_,
                          KeyType(blob), Fingerprint(blob), line.file, line.line),
              "the host needs a new host key");
}

void KnownHosts::RefuseUnknown(std::string_view blob) const {
  const std::string beyond = WhyBeyondLibrary();
  std::string cause = fmt::format("{} is not in known_hosts; it shows {} {}", name_, KeyType(blob),
                                  Fingerprint(blob));
  if (!beyond.empty())
    throw Error(Phase::kHostKey, cause + "; " + beyond, std::string(kUseOpenssh));
  if (host_.trusts_anybody) cause += "; " + std::string(kTrustsAnybody);
  throw Error(Phase::kHostKey, std::move(cause),
              std::string(host_.trusts_anybody ? kTrustNewOnes : kCompareOrTrust));
}

}  // namespace tfdist::ssh
