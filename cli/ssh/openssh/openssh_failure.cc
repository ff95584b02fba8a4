#include "cli/ssh/openssh/openssh_failure.h"

#include <fmt/format.h>

#include "base/failures.h"
#include "base/text.h"
#include "cli/channel/tail.h"

namespace tfdist::ssh {
namespace {

using Kind = LoginFailure::Kind;

// The last line with `part` in it; empty: none.
std::string_view LineWith(std::string_view part, std::string_view said) {
  std::string_view found;
  while (!said.empty()) {
    const std::string_view line = TakeUpTo('\n', said);
    if (line.find(part) != line.npos) found = line;
  }
  return found;
}

bool Says(std::string_view said, std::string_view part) { return said.find(part) != said.npos; }

// "SHA256:..." stands on a line of its own.
std::string WithFingerprint(std::string_view said) {
  const std::string_view line = LineWith("SHA256:", said);
  return line.empty() ? "" : "; it shows " + cli::OnOneLine(line);
}

// ssh writes a box of capitals. "Offending ED25519 key in FILE:LINE" has the facts.
LoginFailure ExplainChangedKey(std::string_view said, const std::string& host) {
  constexpr std::string_view kIn = " key in ";
  const std::string_view line = LineWith("Offending ", said);
  const size_t at = line.find(kIn);
  const std::string place =
      at == line.npos ? "known_hosts" : cli::OnOneLine(line.substr(at + kIn.size()));
  return {
      Kind::kRefused, Phase::kHostKey,
      fmt::format("the key of {} differs from {}{}; somebody may be listening in", host, place,
                  WithFingerprint(said)),
      "ask who runs the host; if its key was changed on purpose, remove that line (ssh-keygen -R)"};
}

LoginFailure ExplainHostKey(std::string_view said, const std::string& host) {
  if (Says(said, "HOST IDENTIFICATION HAS CHANGED")) return ExplainChangedKey(said, host);
  if (Says(said, "REVOKED HOST KEY") || Says(said, "is marked as revoked") ||
      Says(said, " revoked by file ")) {
    return {Kind::kRefused, Phase::kHostKey,
            fmt::format("the key of {} is marked as revoked", host),
            "the host needs a new host key"};
  }
  const std::string_view unknown = LineWith("host key is known for", said);
  return {
      Kind::kRefused, Phase::kHostKey,
      cli::OnOneLine(unknown.empty() ? LineWith("Host key verification failed", said) : unknown),
      "ssh to it once by hand and compare the fingerprint, or set host_keys = \"accept-new\" in "
      "[ssh]"};
}

// Before the SSH version of the host.
constexpr std::string_view kNoVersion = "kex_exchange_identification";

struct Saying {
  std::string_view part;
  Kind kind;
  Phase phase;
  std::string_view remedy;
};

constexpr std::string_view kLogin =
    "`ssh HOST` must work without a question (a password is never asked for); check [ssh] user and "
    "identity_file";
constexpr std::string_view kIsItUp =
    "is it up, and does its sshd listen there (Port in ~/.ssh/config, port in [ssh])?";
constexpr std::string_view kBusy =
    "its sshd may have too many logins at once (MaxStartups), or punish failed ones "
    "(PerSourcePenalties): wait some minutes";
// From OpenSSH 10 on this is all that ssh says of a host that hangs up before its version; it may also have come later.
constexpr std::string_view kHungUp =
    "its sshd hung up during the login, and its log says why (journalctl -u ssh there); it may "
    "have "
    "too many logins at once (MaxStartups), or punish failed ones (PerSourcePenalties)";
// A login that stays in the background keeps back what the program that connects it says.
constexpr std::string_view kNoWayThere =
    "ssh to it by hand, which shows what went wrong on the way (the jump host's port, its "
    "AllowTcpForwarding; the ProxyCommand's words); if that works, its sshd may have too many "
    "logins "
    "at once (MaxStartups)";

constexpr Saying kSayings[] = {
    {"Too many authentication failures", Kind::kRefused, Phase::kAuth, kLogin},
    {"Permission denied (", Kind::kRefused, Phase::kAuth, kLogin},
    {"Could not resolve hostname", Kind::kUnreachable, Phase::kResolve,
     "check the name, or give the host's address"},
    {"Unable to negotiate with", Kind::kRefused, Phase::kConnect,
     "a newer ssh on this machine, or KexAlgorithms, Ciphers and the like in ~/.ssh/config"},
    {"timed out", Kind::kUnreachable, Phase::kConnect, kIsItUp},
    {"Connection refused", Kind::kUnreachable, Phase::kConnect, kIsItUp},
    {"No route to host", Kind::kUnreachable, Phase::kConnect, kIsItUp},
    {"is unreachable", Kind::kUnreachable, Phase::kConnect, kIsItUp},
    {"Exceeded MaxStartups", Kind::kBusy, Phase::kConnect, kBusy},
    {"Not allowed at this time", Kind::kBusy, Phase::kConnect, kBusy},
    {kNoVersion, Kind::kBusy, Phase::kConnect, kBusy},
    {"banner exchange", Kind::kBusy, Phase::kConnect, kBusy},
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

}  // namespace

LoginFailure ExplainLogin(std::string_view said, const std::string& host) {
  if (Says(said, "Host key verification failed")) return ExplainHostKey(said, host);
  for (const Saying& saying : kSayings) {
    const std::string_view line = LineWith(saying.part, said);
    if (line.empty()) continue;
    const bool hung_up = saying.part == kNoVersion || saying.remedy == kHungUp;
    if (hung_up && IsByAnotherWay(said)) {
      return {saying.kind, saying.phase,
              "the jump host or ProxyCommand gave no way to it; ssh says: " + cli::OnOneLine(line),
              std::string(kNoWayThere)};
    }
    return {saying.kind, saying.phase, "ssh says: " + cli::OnOneLine(line),
            std::string(saying.remedy)};
  }
  return {Kind::kUnreachable, Phase::kConnect,
          said.empty() ? "ssh failed and said nothing"
                       : "ssh says: " + cli::OnOneLine(WithoutWordsOfOptions(said)),
          "ssh to it by hand"};
}

void Throw(const LoginFailure& failure) {
  if (failure.kind == Kind::kRefused) throw Error(failure.phase, failure.cause, failure.remedy);
  throw Unreachable(failure.phase, failure.cause, failure.remedy);
}

}  // namespace tfdist::ssh
