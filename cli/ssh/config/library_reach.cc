#include "cli/ssh/config/library_reach.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "base/text.h"
#include "cli/channel/tail.h"
#include "cli/ssh/config/algorithms.h"

namespace tfdist::ssh {
namespace {

// ParseConfig reads their values itself.
constexpr std::string_view kRead =
    "hostname user port identityfile certificatefile identitiesonly identityagent hashknownhosts "
    "checkhostip proxyjump userknownhostsfile globalknownhostsfile stricthostkeychecking "
    "requiredrsasize connecttimeout";

constexpr std::string_view kIrrelevant =
    "addkeystoagent batchmode canonicalizefallbacklocal canonicalizemaxdots canonicaldomains "
    "canonicalizepermittedcnames casignaturealgorithms challengeresponseauthentication "
    "channeltimeout clearallforwardings connectionattempts controlmaster controlpath "
    "controlpersist dynamicforward enableescapecommandline enablesshkeysign escapechar "
    "exitonforwardfailure fingerprinthash forkafterauthentication forwardagent forwardx11 "
    "forwardx11timeout forwardx11trusted gatewayports gssapiauthentication gssapiclientidentity "
    "gssapidelegatecredentials gssapikexalgorithms gssapirenewalforcesrekey gssapiserveridentity "
    "gssapitrustdns host hostbasedacceptedalgorithms hostbasedauthentication hostbasedkeytypes "
    "ignoreunknown ipqos kbdinteractiveauthentication kbdinteractivedevices localcommand "
    "localforward loglevel logverbose numberofpasswordprompts obscurekeystroketiming "
    "passwordauthentication permitlocalcommand permitremoteopen remotecommand remoteforward "
    "requesttty securitykeyprovider sendenv serveralivecountmax serveraliveinterval sessiontype "
    "setenv stdinnull streamlocalbindmask streamlocalbindunlink syslogfacility tag tcpkeepalive "
    "tunnel tunneldevice updatehostkeys useprivilegedport versionaddendum visualhostkey "
    "warnweakcrypto xauthlocation";

// Others must have one of these values.
struct Allowed {
  std::string_view keyword;
  std::array<std::string_view, 3> values;
};
constexpr Allowed kAllowed[] = {
    {"addressfamily", {"any"}},          {"canonicalizehostname", {"false", "no", "none"}},
    {"compression", {"no", "false"}},    {"gssapikeyexchange", {"no", "false"}},
    {"knownhostscommand", {"none"}},     {"nohostauthenticationforlocalhost", {"no", "false"}},
    {"pkcs11provider", {"none"}},        {"proxycommand", {"none"}},
    {"proxyusefdpass", {"no", "false"}}, {"pubkeyauthentication", {"true", "yes", "unbound"}},
    {"refuseconnection", {"none"}},      {"rekeylimit", {"0 0", "default none"}},
    {"revokedhostkeys", {"none"}},       {"verifyhostkeydns", {"false", "no"}},
};

// The names as ssh_config(5) writes them, of those that people meet.
constexpr std::string_view kNames =
    "AddressFamily BindAddress BindInterface CanonicalizeHostname Ciphers Compression "
    "GSSAPIKeyExchange HostKeyAlgorithms KexAlgorithms KnownHostsCommand MACs "
    "NoHostAuthenticationForLocalhost HostKeyAlias PKCS11Provider PreferredAuthentications "
    "ProxyCommand ProxyUseFdpass PubkeyAcceptedAlgorithms PubkeyAcceptedKeyTypes "
    "PubkeyAuthentication RefuseConnection RekeyLimit RevokedHostKeys VerifyHostKeyDNS "
    "CertificateFile IdentityFile";

bool IsWordOf(std::string_view words, std::string_view word) {
  while (!words.empty()) {
    if (TakeUpTo(' ', words) == word) return true;
  }
  return false;
}

// Nothing where the keyword is not one of lists.
std::optional<bool> ListServes(const std::string& keyword, std::string_view value) {
  const Algorithms ours;
  if (keyword == "ciphers") return !Common(ours.ciphers, value).empty();
  if (keyword == "macs") return !Common(ours.macs, value).empty();
  if (keyword == "kexalgorithms") return !Common(ours.key_exchanges, value).empty();
  if (keyword == "hostkeyalgorithms") return !Common(ours.host_keys, value).empty();
  if (keyword == "pubkeyacceptedalgorithms" || keyword == "pubkeyacceptedkeytypes") {
    return HasAll(value, kUserKeyMethods);
  }
  if (keyword == "preferredauthentications") return HasAll(value, "publickey");
  return std::nullopt;
}

std::optional<bool> ValueServes(const std::string& keyword, const std::string& value) {
  for (const Allowed& allowed : kAllowed) {
    if (allowed.keyword == keyword) {
      return std::ranges::find(allowed.values, value) != allowed.values.end();
    }
  }
  return ListServes(keyword, value);
}

bool Holds(const Settings& settings, const std::string& keyword, const std::string& value) {
  const auto [begin, end] = settings.equal_range(keyword);
  return std::any_of(begin, end, [&](const auto& line) { return line.second == value; });
}

}  // namespace

std::string NameOf(const std::string& keyword) {
  for (std::string_view names = kNames; !names.empty();) {
    const std::string_view name = TakeUpTo(' ', names);
    if (LowerCase(name) == keyword) return std::string(name);
  }
  return keyword;
}

bool IsIrrelevant(std::string_view keyword) { return IsWordOf(kIrrelevant, keyword); }

std::string WhyBeyondLibrary(const Settings& settings, const std::function<Settings()>& defaults) {
  std::optional<Settings> usual;
  for (const auto& [keyword, value] : settings) {
    if (IsIrrelevant(keyword) || IsWordOf(kRead, keyword)) continue;
    std::optional<bool> serves = ValueServes(keyword, value);
    if (!serves) {
      if (!usual) usual = defaults();
      serves = Holds(*usual, keyword, value);
    }
    if (!*serves) return fmt::format("{} {}", NameOf(keyword), cli::OnOneLine(value, 80));
  }
  return "";
}

}  // namespace tfdist::ssh
