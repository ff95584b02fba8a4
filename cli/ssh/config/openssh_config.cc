#include "cli/ssh/config/openssh_config.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "base/clock.h"
#include "base/error.h"
#include "base/subprocess.h"
#include "base/text.h"
#include "cli/channel/tail.h"
#include "cli/ssh/config/config_paths.h"
#include "cli/ssh/config/library_reach.h"
#include "cli/ssh/config/phase_deadline.h"

namespace tfdist::ssh {
namespace {

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : value;
}

Settings SplitLines(std::string_view output) {
  Settings settings;
  while (!output.empty()) {
    const std::string_view line = output.substr(0, output.find('\n'));
    output.remove_prefix(std::min(output.size(), line.size() + 1));
    const size_t space = line.find(' ');
    if (space == std::string_view::npos) continue;
    settings.emplace(LowerCase(line.substr(0, space)),
                     line.substr(space + 1));  // not all of them are
  }
  return settings;
}

// Empty: it is not set.
std::string Value(const Settings& settings, std::string_view keyword) {
  const auto found = settings.find(keyword);
  return found == settings.end() ? "" : found->second;
}

// For keywords where "none" is ssh's word for nothing.
std::string Only(const Settings& settings, std::string_view keyword) {
  const std::string value = Value(settings, keyword);
  return value == "none" ? "" : value;
}

bool IsYes(const Settings& settings, std::string_view keyword) {
  const std::string value = Only(settings, keyword);
  return value == "yes" || value == "true";
}

// What libssh2 is not to connect with, as ParseConfig says.
class ForSsh : public Error {
 public:
  explicit ForSsh(const std::string& setting)
      : Error(Phase::kConnect, cli::OnOneLine(setting, 80)) {}
};

std::string Plain(std::string_view keyword, const std::string& path) {
  const auto plain = PlainPath(path);
  if (!plain) throw ForSsh(fmt::format("{} {}", keyword, path));
  return *plain;
}

std::vector<std::string> FilesOf(std::string_view keyword, const Settings& settings) {
  std::vector<std::string> files;
  const auto [begin, end] = settings.equal_range(keyword);
  for (auto it = begin; it != end; ++it) {
    if (it->second != "none") files.push_back(Plain(NameOf(it->first), it->second));
  }
  return files;
}

bool NamesVariable(std::string_view value) {
  return value.starts_with('$') && !value.starts_with("${");
}

std::string UnsetAgent(const Settings& settings) {
  const std::string value = Only(settings, "identityagent");
  return NamesVariable(value) && Environment(value.c_str() + 1).empty() ? value.substr(1) : "";
}

std::string AgentSocket(const Settings& settings) {
  if (settings.find("identityagent") == settings.end()) return Environment("SSH_AUTH_SOCK");
  const std::string value = Only(settings, "identityagent");  // empty for "none"
  if (value == "SSH_AUTH_SOCK") return Environment("SSH_AUTH_SOCK");
  if (NamesVariable(value)) return Environment(value.c_str() + 1);
  return value.empty() ? "" : Plain("IdentityAgent", value);
}

int ParsePort(const std::string& text) {
  int port = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, port);
  if (error != std::errc() || stop != end || port < 1 || port > 65535) {
    throw Error(Phase::kConnect, fmt::format("ssh -G gives the port {}", cli::OnOneLine(text)));
  }
  return port;
}

std::vector<std::string> CommandLine(const Target& target, SshWords words) {
  // -N: else it ends where the configuration has ForkAfterAuthentication.
  std::vector<std::string> argv = {"ssh", "-G", "-N"};
  if (words == SshWords::kMany) argv.emplace_back("-v");
  const auto add = [&](const char* option, const std::string& value) {
    if (!value.empty()) argv.insert(argv.end(), {option, value});
  };
  add("-F", target.config.string());
  add("-l", target.user);
  add("-p", target.port ? std::to_string(*target.port) : "");
  add("-i", target.identity_file);
  argv.insert(argv.end(), {"--", target.name});  // whatever comes behind -- is no option
  return argv;
}

// ssh_config(5): "yes" and "ask" refuse a new key where nobody can be asked.
void TakeRuleForNewKeys(const Settings& settings, const Target& target, HostConfig& host) {
  const std::string value = Only(settings, "stricthostkeychecking");
  host.accept_new = target.accept_new || (!target.strict && value == "accept-new");
  host.trusts_anybody = value == "no" || value == "off" || value == "false";
}

// Empty: there is none.
std::string SocketAt(std::string path) {
  std::error_code none;
  return std::filesystem::is_socket(path, none) ? std::move(path) : "";
}

// Where a keyword is not printed, all is allowed.
std::string Allowed(const Settings& settings, std::string_view keyword, const std::string& ours) {
  const auto found = settings.find(keyword);
  return found == settings.end() ? ours : Common(ours, found->second);
}

std::vector<std::string> KnownHostsOf(std::string_view keyword, const Settings& settings) {
  const std::string value = Only(settings, LowerCase(keyword));
  const auto files = KnownHostsFiles(value);
  if (!files) throw ForSsh(fmt::format("{} {}", keyword, value));
  return *files;
}

void TakeKeysAndHostKeys(const Settings& settings, HostConfig& host) {
  host.identities_only = IsYes(settings, "identitiesonly");
  host.hash_known_hosts = IsYes(settings, "hashknownhosts");
  host.check_host_ip = IsYes(settings, "checkhostip");
  host.required_rsa_bits =
      std::max(std::atoi(Only(settings, "requiredrsasize").c_str()), kUsualRsaBits);
  Algorithms& algorithms = host.algorithms;
  algorithms.key_exchanges = Allowed(settings, "kexalgorithms", algorithms.key_exchanges);
  algorithms.ciphers = Allowed(settings, "ciphers", algorithms.ciphers);
  algorithms.macs = Allowed(settings, "macs", algorithms.macs);
  algorithms.host_keys = Allowed(settings, "hostkeyalgorithms", algorithms.host_keys);
  host.identity_files = FilesOf("identityfile", settings);
  host.certificate_files = FilesOf("certificatefile", settings);
  host.agent_socket = AgentSocket(settings);
  host.user_known_hosts = KnownHostsOf("UserKnownHostsFile", settings);
  host.global_known_hosts = KnownHostsOf("GlobalKnownHostsFile", settings);
}

// What ssh says without any configuration. Asked where it prints a keyword that nobody knew when this was written.
Settings UsualSettings() {
  Target nobody;
  nobody.name = "localhost";
  nobody.config = "/dev/null";
  static const Settings usual =
      SplitLines(AskSsh(nobody, SystemClock().Now() + nobody.limits.config, SshWords::kFew).output);
  return usual;
}

// Without what -v adds.
std::string Complaints(std::string_view errors) {
  std::string complaints;
  while (!errors.empty()) {
    const std::string_view line = TakeUpTo('\n', errors);
    if (!line.starts_with("debug1: ") && !line.starts_with("OpenSSH_")) {
      complaints.append(line).append("\n");
    }
  }
  return complaints;
}

std::string RemedyFor(const std::string& complaint) {
  constexpr std::string_view kBadFile = "Bad owner or permissions on ";
  const size_t at = complaint.find(kBadFile);
  if (at != complaint.npos) {
    const std::string file = complaint.substr(at + kBadFile.size());
    return fmt::format(
        "chmod go-w {0}; it must belong to you, or to root: ls -l {0} shows whose it is", file);
  }
  return "correct what it names, in ~/.ssh/config, /etc/ssh/ssh_config or a file that they "
         "include; `ssh -G HOST` shows it, too";
}

}  // namespace

bool IsUsed(std::string_view keyword) { return keyword == "controlpath" || !IsIrrelevant(keyword); }

HostConfig ParseConfig(std::string_view output, const Target& target) {
  const Settings settings = SplitLines(output);
  HostConfig host;
  host.host_name = Value(settings, "hostname");
  host.user = Value(settings, "user");
  host.port = ParsePort(Only(settings, "port"));
  host.proxy_jump = Only(settings, "proxyjump");
  host.gateway = Only(settings, "proxycommand");
  if (host.gateway.empty()) host.gateway = host.proxy_jump;
  // Only ssh knows what its tokens stand for: it makes that jump itself.
  const bool has_token = host.proxy_jump.find('%') != std::string::npos;
  if (has_token) host.proxy_jump.clear();
  host.connect_timeout = std::chrono::seconds(std::atoi(Only(settings, "connecttimeout").c_str()));
  host.unset_agent = UnsetAgent(settings);
  TakeRuleForNewKeys(settings, target, host);
  host.control_path = SocketAt(Only(settings, "controlpath"));
  if (target.program == Program::kOpenssh) return host;
  host.beyond = has_token ? "ProxyJump " + cli::OnOneLine(host.gateway, 80)
                          : WhyBeyondLibrary(settings, UsualSettings);
  if (!host.beyond.empty()) return host;
  try {
    TakeKeysAndHostKeys(settings, host);
  } catch (const ForSsh& setting) {
    host.beyond = setting.cause();
  }
  return host;
}

SshAnswer AskSsh(const Target& target, TimePoint deadline, SshWords words) {
  if (target.name.empty() || target.name.front() == '-') {
    throw Error(Phase::kConnect,
                fmt::format("'{}' is not a host's name", cli::OnOneLine(target.name)));
  }
  ProgramResult result =
      RunProgram({.argv = CommandLine(target, words)}, Within(target.limits.config, deadline));
  if (result.timed_out) throw Error(Phase::kConnect, "ssh -G did not end in time");
  if (result.exit_code != 0) {
    const std::string said = cli::OnOneLine(Complaints(result.error_output));
    throw Error(Phase::kConnect, fmt::format("ssh does not accept its configuration: {}", said),
                RemedyFor(said));
  }
  return {std::move(result.output), std::move(result.error_output)};
}

HostConfig ReadConfig(const Target& target, TimePoint deadline) {
  return ParseConfig(AskSsh(target, deadline, SshWords::kFew).output, target);
}

std::filesystem::path UserConfigFile() { return HomeFolder() + "/.ssh/config"; }

}  // namespace tfdist::ssh
