#include "agent/check/programs.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <system_error>

#include "base/error.h"
#include "base/file.h"
#include "base/subprocess.h"

namespace tfdist::agent {
namespace {

constexpr size_t kMostLineBytes = 200;
constexpr size_t kMostCgroupBytes = 64 * 1024;

// Metadata alone: importing TensorFlow takes seconds. A package may be installed under another name
// (tensorflow-cpu), or by hand.
constexpr const char* kPythonProgram = R"py(
import sys
def version(name):
    try:
        from importlib import metadata
    except ImportError:
        import pkg_resources as old
        try:
            return old.get_distribution(name).version
        except old.DistributionNotFound:
            return ""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        providers = getattr(metadata, "packages_distributions", dict)()
        for provider in providers.get(name, []):
            return metadata.version(provider)
    import importlib.util
    return "unknown" if importlib.util.find_spec(name) else ""
print(sys.version.split()[0])
for name in sys.argv[1:]:
    try:
        print(version(name))
    except Exception:
        print("")
)py";

std::vector<std::string> Lines(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, std::min(end, kMostLineBytes)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

// Where Python says what is wrong.
std::string LastLine(const std::string& text) {
  const auto lines = Lines(text);
  return lines.empty() ? "" : lines.back();
}

std::string WhyNot(const ProgramResult& result, const std::string& said) {
  if (result.timed_out) return "no answer in time";
  if (result.signal != 0) return fmt::format("ended by signal {}", result.signal);
  return said.empty() ? fmt::format("ended with {}", result.exit_code) : said;
}

// nullopt: the program is not installed.
std::optional<ProgramResult> Ask(std::vector<std::string> argv, TimePoint deadline) {
  try {
    return RunProgram({.argv = std::move(argv)}, deadline);
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::string OwnSession() {
  return SessionOf(ReadFileIfExists("/proc/self/cgroup", kMostCgroupBytes).value_or(""));
}

std::string UserName() {
  const char* user = std::getenv("USER");
  return user != nullptr ? user : std::to_string(getuid());
}

bool HoldsWord(std::string_view words, std::string_view wanted) {
  while (!words.empty()) {
    const size_t end = std::min(words.find(' '), words.size());
    if (words.substr(0, end) == wanted) return true;
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return false;
}

}  // namespace

protocol::PythonFact AskPython(const std::string& program, const std::vector<std::string>& settings,
                               const std::vector<std::string>& packages, TimePoint deadline) {
  protocol::PythonFact fact{.program = program, .version = "", .packages = {}, .why = ""};
  std::vector<std::string> argv = {"env"};
  argv.insert(argv.end(), settings.begin(), settings.end());
  argv.insert(argv.end(), {program, "-c", kPythonProgram});
  argv.insert(argv.end(), packages.begin(), packages.end());
  const auto result = Ask(std::move(argv), deadline);
  const auto lines = Lines(result ? result->output : "");
  if (!result || result->exit_code != 0 || lines.size() != packages.size() + 1) {
    fact.why = result ? WhyNot(*result, LastLine(result->error_output)) : "env cannot be run";
    return fact;
  }
  fact.version = lines[0];
  for (size_t i = 0; i < packages.size(); ++i)
    fact.packages.emplace_back(packages[i], lines[i + 1]);
  return fact;
}

std::optional<protocol::Trouble> FindLogoutTrouble(TimePoint deadline) {
  if (OwnSession().empty()) return std::nullopt;
  // Without a session's name it shows the manager's own settings.
  const auto result = Ask({"loginctl", "show-session", "-p", "KillUserProcesses", "-p",
                           "KillOnlyUsers", "-p", "KillExcludeUsers"},
                          deadline);
  const std::string user = UserName();
  if (!result || !EndsProcesses(result->output, user)) return std::nullopt;
  return protocol::Trouble{
      "logind ends all processes of a login when it is over (KillUserProcesses=yes)",
      fmt::format("write KillExcludeUsers=root {} into /etc/systemd/logind.conf there, then "
                  "systemctl restart systemd-logind",
                  user)};
}

// logind.conf(5): KillOnlyUsers, where it is not empty, limits it; KillExcludeUsers wins.
bool EndsProcesses(std::string_view answer, std::string_view user) {
  std::map<std::string, std::string> settings;
  for (const std::string& line : Lines(answer)) {
    const size_t equal = line.find('=');
    if (equal != std::string::npos) settings[line.substr(0, equal)] = line.substr(equal + 1);
  }
  if (settings["KillUserProcesses"] != "yes") return false;
  if (HoldsWord(settings["KillExcludeUsers"], user)) return false;
  const std::string& only = settings["KillOnlyUsers"];
  return only.empty() || HoldsWord(only, user);
}

std::optional<protocol::Trouble> FindMemoryTrouble(TimePoint deadline) {
  const std::string session = OwnSession();
  if (session.empty()) return std::nullopt;
  const auto policy = Ask({"systemctl", "show", "-p", "OOMPolicy", session}, deadline);
  const auto version = Ask({"systemctl", "--version"}, deadline);
  if (!policy || policy->exit_code != 0 || !version) return std::nullopt;
  if (!EndsLoginsShortOfMemory(policy->output, version->output)) return std::nullopt;
  return protocol::Trouble{
      "where one process runs out of memory, systemd ends the whole login, and with it all of the "
      "job there",
      "systemd 253 or newer there, with OOMPolicy=continue below [Scope] in "
      "/etc/systemd/system/session-.scope.d/oom.conf"};
}

// systemd.scope(5). In 251 and 252 a scope was stopped, whatever one wished.
bool EndsLoginsShortOfMemory(std::string_view policy, std::string_view version) {
  constexpr std::string_view kPolicy = "OOMPolicy=";
  if (policy.starts_with(kPolicy)) {
    const std::string is = Lines(policy)[0].substr(kPolicy.size());
    return is == "stop" || is == "kill";
  }
  return version.starts_with("systemd 251 ") || version.starts_with("systemd 252 ");
}

// "0::/user.slice/user-1000.slice/session-3.scope"
std::string SessionOf(std::string_view cgroup) {
  constexpr std::string_view kScope = ".scope";
  const size_t begin = cgroup.find("/session-");
  const size_t end = begin == cgroup.npos ? begin : cgroup.find(kScope, begin);
  if (end == cgroup.npos) return "";
  return std::string(cgroup.substr(begin + 1, end + kScope.size() - begin - 1));
}

}  // namespace tfdist::agent
