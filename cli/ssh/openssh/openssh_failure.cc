#include "cli/ssh/openssh/openssh_failure.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "base/failures.h"
#include "base/text.h"
#include "cli/channel/tail.h"
#include "cli/ssh/config/path_words.h"
#include "cli/ssh/keys/identity_file.h"
#include "cli/ssh/keys/ssh_agent.h"

namespace tfdist::ssh {
namespace {

using Kind = LoginFailure::Kind;

constexpr size_t kMostOfALine = 300;

// The last line with `part` in it; empty: none.
std::string_view LineWith(std::string_view part, std::string_view said) {
  std::string_view found;
  while (!said.empty()) {
    const std::string_view line = TakeUpTo('\n', said);
    if (line.find(part) != line.npos) found = line;
  }
  return found;
}

// The begin of a line, which says what has failed: a list may follow ("Their offer: ").
std::string Shown(std::string_view line) { return cli::OnOneLine(line.substr(0, kMostOfALine)); }

bool Says(std::string_view said, std::string_view part) { return said.find(part) != said.npos; }

// What follows `part` in each line with it.
std::vector<std::string> Rests(std::string_view part, std::string_view said) {
  std::vector<std::string> rests;
  while (!said.empty()) {
    const std::string_view line = TakeUpTo('\n', said);
    const size_t at = line.find(part);
    if (at != line.npos) rests.push_back(Shown(line.substr(at + part.size())));
  }
  return rests;
}

// "trainer@gpu7: Permission denied (publickey)." on one line, without what ends it.
std::string WithoutPoint(std::string_view line) {
  std::string words = Shown(line);
  if (words.ends_with('.')) words.pop_back();
  return words;
}

// The key that the host shows.
std::string WithFingerprint(std::string_view said) {
  const std::vector<std::string> shown = Rests("debug1: Server host key: ", said);
  return shown.empty() ? "" : "; it shows " + shown.back();
}

// `place`: FILE:LINE of a known_hosts.
std::string RemovalOf(const std::string& name, const std::string& place) {
  return fmt::format("ssh-keygen -f {} -R {}", ShellQuoted(place.substr(0, place.rfind(':'))),
                     ShellQuoted(name));
}

// ssh writes a box of capitals. "Offending ED25519 key in FILE:LINE" has the facts.
LoginFailure ExplainChangedKey(std::string_view said, const std::string& host) {
  const std::string_view offending = LineWith("Offending ", said);
  const std::vector<std::string> places = Rests(" key in ", offending);
  const std::string place = places.empty() ? "known_hosts" : places.back();
  const std::vector<std::string> names = Rests("Host key for ", said);
  const std::string name = names.empty() ? host : names.back().substr(0, names.back().find(' '));
  return {Kind::kRefused, Phase::kHostKey,
          fmt::format("the key of {} differs from {}{}; somebody may be listening in", name, place,
                      WithFingerprint(said)),
          fmt::format("ask who runs the host; if its key was changed on purpose: {}",
                      RemovalOf(name, place))};
}

// CheckHostIP: "... differs from the key for the IP address 'ADDRESS'", which `place` has.
LoginFailure ExplainKeyOfAddress(std::string_view said, const std::string& host,
                                 const std::string& place) {
  const std::vector<std::string> rests = Rests("differs from the key for the IP address '", said);
  const std::string address =
      rests.empty() ? host : rests.back().substr(0, rests.back().find('\''));
  return {Kind::kRefused, Phase::kHostKey,
          fmt::format("the key of {} differs from that of its address {} in {}{}", host, address,
                      place, WithFingerprint(said)),
          fmt::format("ask who runs the host; if the address was another host's: {}",
                      RemovalOf(address, place))};
}

LoginFailure ExplainHostKey(std::string_view said, const std::string& name,
                            const HostConfig& host) {
  if (Says(said, "HOST IDENTIFICATION HAS CHANGED")) return ExplainChangedKey(said, name);
  if (Says(said, "REVOKED HOST KEY") || Says(said, "is marked as revoked") ||
      Says(said, " revoked by file ")) {
    return {Kind::kRefused, Phase::kHostKey,
            fmt::format("the key of {} is marked as revoked", name),
            "the host needs a new host key"};
  }
  const std::vector<std::string> places = Rests("Offending key for IP in ", said);
  if (!places.empty()) return ExplainKeyOfAddress(said, name, places.back());
  const std::string_view unknown = LineWith("host key is known for", said);
  LoginFailure failure{
      Kind::kRefused, Phase::kHostKey,
      WithoutPoint(unknown.empty() ? LineWith("Host key verification failed", said) : unknown) +
          WithFingerprint(said),
      "compare the fingerprint, then ssh to it once by hand, or set host_keys = \"accept-new\" in "
      "[ssh]"};
  // ssh by hand would change nothing.
  if (host.accept_new) {
    failure.cause += "; ssh's configuration names no file to add it to";
    failure.remedy = "UserKnownHostsFile in ssh's configuration: a file, and not none";
  } else if (host.trusts_anybody) {
    failure.cause +=
        "; ssh's configuration turns the check off (StrictHostKeyChecking no), and tfdist does not "
        "follow it";
    failure.remedy =
        "StrictHostKeyChecking accept-new in ssh's configuration, or host_keys = \"accept-new\" in "
        "[ssh]: new keys are taken, changed ones refused";
  }
  return failure;
}

// Before the SSH version of the host.
constexpr std::string_view kNoVersion = "kex_exchange_identification";
// The same where ssh's own version could not be sent: the other end had gone before.
constexpr std::string_view kNoBanner = "banner exchange";

struct Saying {
  std::string_view part;
  Kind kind;
  Phase phase;
  std::string_view remedy;
};

constexpr std::string_view kCheckKeys =
    "`ssh HOST` must work without a question: check User and IdentityFile in ~/.ssh/config, or "
    "ssh-copy-id "
    "to the host";
constexpr std::string_view kTooManyKeys =
    "name the right key: IdentityFile and IdentitiesOnly in ~/.ssh/config";
constexpr std::string_view kMakeAKey = "ssh-keygen -t ed25519, then ssh-copy-id to the host";
constexpr std::string_view kOwnConnection =
    "log in by hand where ~/.ssh/config has ControlMaster, ControlPath and ControlPersist: tfdist "
    "uses that connection; or let its sshd take the key alone";
constexpr std::string_view kUnlock =
    "ssh-add its private key, as nobody can be asked for a passphrase";
constexpr std::string_view kStartAgent =
    "start ssh-agent and ssh-add the key, or correct SSH_AUTH_SOCK or IdentityAgent";
constexpr std::string_view kIsItUp =
    "is it up, and does its sshd listen there (Port in ~/.ssh/config)? A firewall that counts "
    "connections (ufw limit) takes them again after half a minute";
constexpr std::string_view kBusy =
    "its sshd may have too many logins at once (MaxStartups), punish failed ones "
    "(PerSourcePenalties): wait some minutes; or it may start no process there (pids.max)";
// From OpenSSH 10 on this is all that ssh says of a host that hangs up before its version; it may also have come later.
constexpr std::string_view kHungUp =
    "its sshd hung up during the login, and its log says why (journalctl -u ssh there); it may "
    "have "
    "too many logins at once (MaxStartups), punish failed ones (PerSourcePenalties), or may start "
    "no process (pids.max)";
// A login that stays in the background keeps back what the program that connects it says.
constexpr std::string_view kNoWayThere =
    "ssh to it by hand, which shows what went wrong on the way (the jump host's port, its "
    "AllowTcpForwarding; the ProxyCommand's words); if that works, its sshd may have too many "
    "logins "
    "at once (MaxStartups)";

constexpr Saying kSayings[] = {
    {"Too many authentication failures", Kind::kRefused, Phase::kAuth, kTooManyKeys},
    {"Could not resolve hostname", Kind::kUnreachable, Phase::kResolve,
     "check the name, or give the host's address"},
    {"Unable to negotiate with", Kind::kRefused, Phase::kConnect,
     "a newer ssh on this machine, or KexAlgorithms, Ciphers and the like in ~/.ssh/config"},
    {"Stdio forwarding request failed", Kind::kUnreachable, Phase::kConnect, kNoWayThere},
    {": Connection timed out", Kind::kSilentPort, Phase::kConnect, kIsItUp},
    {"timed out", Kind::kUnreachable, Phase::kConnect, kIsItUp},
    {"Connection refused", Kind::kRefusedPort, Phase::kConnect, kIsItUp},
    {"No route to host", Kind::kUnreachable, Phase::kConnect, kIsItUp},
    {"is unreachable", Kind::kUnreachable, Phase::kConnect, kIsItUp},
    {"Exceeded MaxStartups", Kind::kBusy, Phase::kConnect, kBusy},
    {"Not allowed at this time", Kind::kBusy, Phase::kConnect, kBusy},
    {kNoVersion, Kind::kBusy, Phase::kConnect, kBusy},
    {kNoBanner, Kind::kBusy, Phase::kConnect, kBusy},
    {"Connection closed by", Kind::kBusy, Phase::kConnect, kHungUp},
    {"Connection reset by", Kind::kBusy, Phase::kConnect, kHungUp},
};

// ssh has nobody's address where another program connects it.
bool IsByAnotherWay(std::string_view said) { return Says(said, "UNKNOWN port "); }

// Of options that this ssh does not know: what it says of them does not stop it.
std::string WithoutWordsOfOptions(std::string_view said) {
  std::string words;
  for (std::string_view rest = said; !rest.empty();) {
    const std::string_view line = TakeUpTo('\n', rest);
    if (!line.starts_with("command-line line")) words.append(line).push_back('\n');
  }
  return words.empty() ? std::string(said) : words;
}

constexpr std::string_view kDebug = "debug1: ";
constexpr std::string_view kConnecting = "debug1: Connecting to ";
constexpr std::string_view kKeyAccepted = "debug1: Server accepts key: ";
constexpr std::string_view kServiceAccepted = "debug1: SSH2_MSG_SERVICE_ACCEPT received";

// `Load key "/home/trainer/.ssh/id_rsa": error in libcrypto`
std::string QuotedIn(std::string_view line) {
  const size_t begin = line.find('"') + 1;
  return std::string(line.substr(begin, line.rfind('"') - begin));
}

// A private key that others may read. A public key in its place may be read by everybody.
bool IsOpenKey(std::string_view line) {
  if (!Says(line, "bad permissions")) return false;
  const auto file = LookAtIdentityFile(QuotedIn(line));
  return file && file->is_private;
}

// Of which ssh knows no public part, though they are there: `identity file /home/trainer/key type -1`.
std::vector<std::string> KeysWithoutPublicPart(std::string_view said) {
  constexpr std::string_view kUnknown = " type -1";
  std::vector<std::string> keys;
  for (std::string& key : Rests("debug1: identity file ", said)) {
    if (!key.ends_with(kUnknown)) continue;
    key.resize(key.size() - kUnknown.size());
    if (access(key.c_str(), R_OK) == 0) keys.push_back(std::move(key));
  }
  return keys;
}

// `said`: with ssh's steps.
bool LeavesOutKeys(std::string_view said) {
  return !Says(said, "Next authentication method: publickey");
}

std::string RemedyWithoutOffers(std::string_view said) {
  if (LeavesOutKeys(said)) {
    return "PreferredAuthentications and PubkeyAuthentication in ssh's configuration must allow "
           "publickey: ssh -G shows them";
  }
  if (const std::string_view why = LineWith("Load key ", said); !why.empty()) {
    return QuotedIn(why) +
           " is no key that ssh can read: name another one (IdentityFile), or make it anew";
  }
  // Encrypted ones of old formats. ssh-agent may hold them.
  if (const auto keys = KeysWithoutPublicPart(said); !keys.empty()) {
    return fmt::format("ssh-keygen -y -f {0} >{0}.pub, and ssh-add it", keys.front());
  }
  return std::string(kMakeAKey);
}

// The keys that the host would not have.
LoginFailure ExplainDenial(std::string_view said, std::string_view line, const HostConfig& host) {
  std::vector<std::string> offered = Rests("debug1: Offering public key: ", said);
  for (std::string& key : offered) ReplaceAll(key, " explicit", "");  // the configuration names it
  const std::vector<std::string> accepted = Rests(kKeyAccepted, said);
  const std::vector<std::string> agent = Rests("ssh_get_authentication_socket: ", said);
  const std::string words = WithoutPoint(line);
  LoginFailure failure{Kind::kRefused, Phase::kAuth,
                       fmt::format("the host does not let {} in; ssh says: {}",
                                   words.substr(0, words.rfind('@')), words),
                       std::string(kCheckKeys)};
  const bool has_steps = Says(said, kDebug);
  std::string& cause = failure.cause;
  if (Says(said, "with partial success")) {
    cause += "; the host has accepted the key, and asks for more";
    failure.remedy = kOwnConnection;
  } else if (Says(said, "agent refused operation")) {
    cause += "; ssh-agent refuses to sign";
    failure.remedy = kAskTheAgent;
  } else if (!accepted.empty()) {
    cause += "; the host would take this key, and ssh cannot use it: " + accepted.back();
    failure.remedy = kUnlock;
  } else if (line.find("publickey") == line.npos) {
    cause += "; it takes no keys";
    failure.remedy =
        "PubkeyAuthentication must be on in its sshd_config; or " + std::string(kOwnConnection);
  } else if (!agent.empty()) {
    failure.remedy = kStartAgent;
  } else if (has_steps && offered.empty()) {
    failure.remedy = RemedyWithoutOffers(said);
  }
  if (const std::string_view why = LineWith("Load key ", said); !why.empty()) {
    cause += "; ssh says: " + cli::OnOneLine(why);
    if (IsOpenKey(why)) failure.remedy = "chmod 600 " + QuotedIn(why);
  }
  if (!host.unset_agent.empty()) {
    cause += fmt::format("; IdentityAgent names ${}, which is not set here", host.unset_agent);
    failure.remedy =
        fmt::format("set {}, or correct IdentityAgent in ssh's configuration", host.unset_agent);
  }
  if (!agent.empty()) cause += "; nobody answers at ssh-agent's socket: " + agent.back();
  if (has_steps && accepted.empty()) {
    if (!offered.empty()) {
      cause += fmt::format("; offered: {}", fmt::join(offered, ", "));
    } else {
      cause += LeavesOutKeys(said) ? "; ssh's configuration leaves out keys"
                                   : "; ssh has no key to offer";
    }
  }
  return failure;
}

// Of ssh itself, and not of the host.
bool IsOwnWord(std::string_view line) {
  constexpr std::string_view kOwn[] = {"Permission denied (",
                                       "Connection closed by",
                                       "Connection reset by",
                                       "Received disconnect",
                                       "Disconnected from",
                                       "Authenticated ",
                                       "sign_and_send_pubkey",
                                       "Connection to ",
                                       "Load key ",
                                       "no such identity: ",
                                       "Warning: ",
                                       "Too many authentication failures",
                                       "@@@@@@@@@@",
                                       "PRIVATE KEY FILE!",
                                       "private key",
                                       "Permissions 0",
                                       kNoVersion,
                                       kNoBanner};
  return std::ranges::any_of(kOwn, [&](std::string_view own) { return Says(line, own); });
}

// Of the host, or of a program on the way to it, on one line.
std::string ForeignWords(std::string_view said) {
  std::string words;
  while (!said.empty()) {
    const std::string_view line = TakeUpTo('\n', said);
    if (!line.starts_with(kDebug) && !IsOwnWord(line)) words.append(line).append("\n");
  }
  return cli::OnOneLine(words);
}

// `all`: with ssh's steps; `said`: without.
LoginFailure Explain(std::string_view all, std::string_view said, const std::string& name,
                     const HostConfig& host) {
  if (Says(said, "Host key verification failed")) return ExplainHostKey(all, name, host);
  if (const std::string_view line = LineWith("Permission denied (", said); !line.empty()) {
    return ExplainDenial(all, line, host);
  }
  if (Says(said, "timed out") && Says(all, "KEXINIT sent") && !Says(all, "NEWKEYS received")) {
    return {Kind::kSlowExchange, Phase::kConnect, "the host fell silent during the key exchange",
            std::string(IsByAnotherWay(said) ? kNoWayThere : kSilentHandshake)};
  }
  if (Says(said, "timed out") && Says(all, kServiceAccepted)) {
    return SlowLogin();
  }
  for (const Saying& saying : kSayings) {
    const std::string_view line = LineWith(saying.part, said);
    if (line.empty()) continue;
    // Before the version: "banner line 0: Not allowed at this time".
    const std::vector<std::string> before =
        Rests("debug1: kex_exchange_identification: banner ", all);
    const bool hung_up =
        saying.part == kNoVersion || saying.part == kNoBanner || saying.remedy == kHungUp;
    if (hung_up ? IsByAnotherWay(said) : IsByAnotherWay(line)) {
      std::string words = ForeignWords(said);
      if (words.empty() && !before.empty()) words = before.back();
      return {saying.kind, saying.phase,
              fmt::format("the jump host or ProxyCommand gave no way to it; ssh says: {}{}{}",
                          Shown(line), words.empty() ? "" : "; on the way: ", words),
              std::string(kNoWayThere), true};
    }
    return {saying.kind,
            saying.phase,
            fmt::format("ssh says: {}{}{}", Shown(line), before.empty() ? "" : "; ",
                        before.empty() ? "" : before.back()),
            std::string(saying.remedy),
            false,
            hung_up && before.empty()};
  }
  return {Kind::kUnreachable, Phase::kConnect,
          said.empty() ? "ssh failed and said nothing"
                       : "ssh says: " + cli::OnOneLine(WithoutWordsOfOptions(said)),
          "ssh to it by hand"};
}

}  // namespace

std::string WithoutSteps(std::string_view said) {
  std::string words;
  while (!said.empty()) {
    const std::string_view line = TakeUpTo('\n', said);
    if (!line.starts_with(kDebug) && !line.starts_with("OpenSSH_")) words.append(line).append("\n");
  }
  return words;
}

bool TellsSteps(std::string_view said) { return said.find(kDebug) != said.npos; }

bool WasOpened(std::string_view said) { return Says(said, "master session id: "); }

bool WasRefused(std::string_view said) { return Says(said, "Session open refused by peer"); }

std::string WordsOfHost(std::string_view said) {
  const size_t begin = said.find(kServiceAccepted);
  if (begin == said.npos) return "";
  return ForeignWords(said.substr(begin + kServiceAccepted.size()));
}

LoginFailure ExplainLogin(std::string_view all, const std::string& name, const HostConfig& host) {
  LoginFailure failure = Explain(all, WithoutSteps(all), name, host);
  const std::string words = WordsOfHost(all);
  if (!words.empty()) failure.cause += "; the host says: " + words;
  failure.is_wordless = failure.is_wordless && words.empty();
  return failure;
}

LoginFailure GivenUpWordless(LoginFailure failure) {
  failure.cause += "; its sshd gave no reason: it may start no process (its limit is reached)";
  failure.remedy =
      "end processes there, or raise the limit (pids.max, TasksMax); else its sshd's log says why "
      "(journalctl -u ssh): too many logins at once (MaxStartups), or failed ones "
      "(PerSourcePenalties)";
  return failure;
}

bool WaitsForAgent(std::string_view said) {
  const size_t end = said.find_last_not_of("\r\n");
  if (end == said.npos) return false;
  said = said.substr(0, end + 1);
  const size_t line_end = said.rfind('\n');
  const std::string_view line = line_end == said.npos ? said : said.substr(line_end + 1);
  return line.starts_with(kKeyAccepted) && line.ends_with(" agent");
}

Reached ReachedOf(std::string_view said) {
  if (Says(said, "debug1: Remote protocol version ")) return Reached::kVersion;
  if (Says(said, "debug1: Connection established.") || WasOpened(said)) return Reached::kConnected;
  return Says(said, kConnecting) ? Reached::kConnecting : Reached::kNothing;
}

LoginFailure ExplainNoAnswer(std::string_view said, std::chrono::milliseconds limit) {
  const std::vector<std::string> to = Rests(kConnecting, said);
  return {to.empty() ? Kind::kUnreachable : Kind::kSilentPort, Phase::kConnect,
          fmt::format("no answer within {} s{}{}",
                      std::chrono::round<std::chrono::seconds>(limit).count(),
                      to.empty() ? "" : ", from ", to.empty() ? "" : WithoutPoint(to.back())),
          std::string(kIsItUp)};
}

LoginFailure ExplainTimeout(std::string_view said, std::chrono::milliseconds limit) {
  const auto seconds = std::chrono::round<std::chrono::seconds>(limit).count();
  if (WaitsForAgent(said)) {
    return {Kind::kUnreachable, Phase::kAuth,
            fmt::format("ssh-agent has not signed within {} s", seconds),
            std::string(kAskTheAgent)};
  }
  if (ReachedOf(said) == Reached::kConnecting) {
    LoginFailure failure = ExplainNoAnswer(said, limit);
    failure.kind = Kind::kUnreachable;
    return failure;
  }
  const std::string words = cli::OnOneLine(WithoutSteps(said));
  return {
      Kind::kUnreachable, Phase::kConnect,
      fmt::format("ssh did not log in within {} s{}{}", seconds, words.empty() ? "" : ": ", words),
      "ssh to it by hand: does it ask something?"};
}

LoginFailure SlowLogin() {
  return {Kind::kSlowLogin, Phase::kAuth, "the host has begun the login and then fell silent",
          std::string(kAboutSlowLogin)};
}

void Throw(const LoginFailure& failure) {
  if (failure.kind == Kind::kRefused) throw Error(failure.phase, failure.cause, failure.remedy);
  throw Unreachable(failure.phase, failure.cause, failure.remedy);
}

}  // namespace tfdist::ssh
