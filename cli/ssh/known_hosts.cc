#include "cli/ssh/known_hosts.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/error.h"
#include "base/subprocess.h"
#include "cli/link/tail.h"
#include "cli/ssh/known_hosts_append.h"
#include "cli/ssh/phase_deadline.h"
#include "cli/ssh/public_key.h"

namespace tfdist::ssh {
namespace {

using Marker = KnownKey::Marker;

constexpr int kDefaultPort = 22;

std::string_view TakeLine(std::string_view& text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(text.size(), line.size() + 1));
  return line;
}

std::string_view TakeWord(std::string_view& line) {
  constexpr std::string_view kBlanks = " \t\r";
  line.remove_prefix(std::min(line.find_first_not_of(kBlanks), line.size()));
  const std::string_view word = line.substr(0, line.find_first_of(kBlanks));
  line.remove_prefix(word.size());
  return word;
}

// The number in "# Host NAME found: line 12 REVOKED".
std::optional<int> LineNumber(std::string_view comment) {
  constexpr std::string_view kBefore = " found: line ";
  const size_t at = comment.rfind(kBefore);
  if (!comment.starts_with("# Host ") || at == std::string_view::npos) return std::nullopt;
  const std::string_view digits = comment.substr(at + kBefore.size());
  int number = 0;
  const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return error == std::errc() ? std::optional(number) : std::nullopt;
}

// "[@marker] names type base64 [comment]", sshd(8).
std::optional<KnownKey> ParseEntry(std::string_view line) {
  KnownKey key;
  std::string_view names = TakeWord(line);
  if (names.starts_with('@')) {
    key.marker = names == "@revoked" ? Marker::kRevoked : Marker::kAuthority;
    names = TakeWord(line);
  }
  key.type = TakeWord(line);
  auto blob = FromBase64(TakeWord(line));
  if (!blob) return std::nullopt;
  key.blob = std::move(*blob);
  return key;
}

KnownKeys Find(const std::string& name, const std::string& file, TimePoint deadline) {
  const ProgramResult result =
      RunProgram({.argv = {"ssh-keygen", "-F", name, "-f", file}}, deadline);
  if (result.timed_out)
    throw Error(Phase::kHostKey, fmt::format("ssh-keygen -F -f {} did not end in time", file));
  // 1: not found. What a file that cannot be read might have held is unknown: that is no reason to
  // trust.
  return ParseFound(result.output, file);
}

KnownKeys FindInAll(const std::string& name, const HostConfig& host,
                    std::chrono::milliseconds limit, TimePoint deadline) {
  KnownKeys all;
  for (const auto* files : {&host.user_known_hosts, &host.global_known_hosts}) {
    for (const std::string& file : *files) {
      if (access(file.c_str(), F_OK) != 0) continue;
      KnownKeys found = Find(name, file, Within(limit, deadline));
      std::move(found.begin(), found.end(), std::back_inserter(all));
    }
  }
  return all;
}

std::string LowerCase(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

bool HasOwnPort(const HostConfig& host) {
  return host.host_key_alias.empty() && host.port != kDefaultPort;
}

std::string NameInKnownHosts(const HostConfig& host) {
  if (!host.host_key_alias.empty()) return host.host_key_alias;
  if (host.port == kDefaultPort) return LowerCase(host.host_name);
  return fmt::format("[{}]:{}", LowerCase(host.host_name), host.port);
}

}  // namespace

KnownKeys ParseFound(std::string_view output, const std::string& file) {
  KnownKeys keys;
  int number = 0;
  while (!output.empty()) {
    const std::string_view line = TakeLine(output);
    if (const auto found = LineNumber(line)) {
      number = *found;
    } else if (auto key = ParseEntry(line)) {
      key->file = file;
      key->line = number;
      keys.push_back(std::move(*key));
    }
  }
  return keys;
}

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

KnownHosts KnownHosts::Load(const HostConfig& host, std::chrono::milliseconds limit,
                            TimePoint deadline) {
  KnownHosts known;
  known.host_ = host;
  known.name_ = NameInKnownHosts(host);
  known.by_name_ = FindInAll(known.name_, host, limit, deadline);
  if (HasOwnPort(host))
    known.by_host_ = FindInAll(LowerCase(host.host_name), host, limit, deadline);
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

void KnownHosts::Check(std::string_view blob, bool accept_new) const {
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
  if (!accept_new) RefuseUnknown(blob);
  AppendKnownHost(host_.user_known_hosts, name_, blob, host_.hash_known_hosts);
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
  const bool has_authority = std::any_of(by_name_.begin(), by_name_.end(), [](const KnownKey& key) {
    return key.marker == Marker::kAuthority;
  });
  throw Error(
      Phase::kHostKey,
      fmt::format(
          "{} is not in known_hosts; it shows {} {}{}", name_, KeyType(blob), Fingerprint(blob),
          has_authority ? " (host certificates, @cert-authority, are not supported yet)" : ""),
      fmt::format("compare the fingerprint, then ssh to it once by hand, or set host_keys = "
                  "\"accept-new\" in [ssh]"));
}

}  // namespace tfdist::ssh
