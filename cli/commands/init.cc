// `tfdist init HOST...`: looks at hosts, and writes a cluster file for them.

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/failures.h"
#include "base/file.h"
#include "base/unique_fd.h"
#include "cli/check/common_network.h"
#include "cli/check/host_check.h"
#include "cli/cluster_file/command_line_job.h"
#include "cli/cluster_file/host_address.h"
#include "cli/cluster_file/toml_text.h"
#include "cli/commands/commands.h"
#include "cli/exit_codes.h"
#include "cli/plan/host_count.h"
#include "cli/show/print_json.h"
#include "cli/show/report.h"
#include "cli/show/slow_notice.h"
#include "cli/stream/print.h"

namespace tfdist::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr double kClockNotice = 1;  // seconds

// What was asked, host by host; several slots of one machine are one host here.
struct Probed {
  HostPlan host;
  int slots = 1;
  HostReport report;
  std::string python;  // which was asked for
};

// As ssh(1) gets it.
std::string LoginOf(const HostPlan& host) {
  const bool has_colon = host.ssh.find(':') != std::string::npos;
  return fmt::format("{}{}{}{}{}", host.ssh_port ? "ssh://" : "", host.ssh_user,
                     host.ssh_user.empty() ? "" : "@", has_colon ? "[" + host.ssh + "]" : host.ssh,
                     host.ssh_port ? fmt::format(":{}", *host.ssh_port) : "");
}

// Files of two folders are two jobs: `down` of one is not to end the other's.
std::string NameOfThisFolder() {
  std::error_code error;
  return JobNameOf({fs::current_path(error).filename().string()});
}

Plan PlanToProbe(const InitArguments& arguments, const std::vector<std::string>& hosts) {
  CommandLineJob job;
  job.hosts = hosts;
  job.layout = arguments.layout;
  job.name = arguments.name.empty() ? NameOfThisFolder() : arguments.name;
  job.ssh_config = arguments.ssh_config;
  job.transport = arguments.transport;
  job.command = arguments.command;
  Plan plan = PlanCommandLine(job);
  plan.python_packages = {"tensorflow"};
  return plan;
}

std::vector<HostReport> Ask(const Plan& plan, const char* what) {
  const SlowNotice notice(fmt::format("{} {}", what, Counted(CountHosts(plan.hosts), "host")));
  return AskHosts(plan);
}

// The command's own Python, or python3.
std::string PythonOf(const std::vector<std::string>& command) {
  const std::string& program = command.front();
  return program.substr(program.rfind('/') + 1).starts_with("python") ? program : "python3";
}

std::vector<Probed> ProbedHosts(const Plan& plan, std::vector<HostReport> reports,
                                const std::string& python) {
  std::vector<Probed> hosts;
  std::map<std::string, size_t> places;
  for (size_t slot = 0; slot < plan.hosts.size(); ++slot) {
    const auto [place, is_new] = places.try_emplace(plan.hosts[slot].name, hosts.size());
    if (is_new) {
      hosts.push_back({plan.hosts[slot], 1, std::move(reports[slot]), python});
    } else {
      ++hosts[place->second].slots;
    }
  }
  return hosts;
}

// Addresses ---------------------------------------------------------------------------------------

// Whether each of the hosts resolves `name` to `address`.
bool MeansThere(const std::vector<Probed>& hosts, const std::string& name,
                const std::string& address) {
  if (IsNumericAddress(name)) return CanonicalAddress(name) == CanonicalAddress(address);
  return std::ranges::all_of(hosts, [&](const Probed& asker) {
    if (!asker.report.facts) return true;
    const auto& answers = asker.report.facts->names.names;
    const auto answer = std::ranges::find(answers, name, &protocol::ResolvedName::name);
    return answer != answers.end() && !answer->addresses.empty() &&
           CanonicalAddress(answer->addresses.front()) == CanonicalAddress(address);
  });
}

// Those that have answered could connect to each other.
bool ReachesAll(const std::vector<HostReport>& reports) {
  return std::ranges::all_of(reports, [](const HostReport& report) {
    return report.failure || (report.unreached && report.unreached->empty());
  });
}

struct Choice {
  std::optional<CommonNetwork> network;  // none: hosts are called as the user calls them
  bool reached = true;                   // each host could connect to each other one
};

// The addresses by which hosts have each other in `network`: the name that the user has given, where all of
// them resolve it so.
std::vector<std::string> AddressesIn(const CommonNetwork& network,
                                     const std::vector<Probed>& hosts) {
  std::vector<std::string> addresses;
  for (size_t at = 0; at < hosts.size(); ++at) {
    const std::string& name = hosts[at].host.address;
    const bool by_name = MeansThere(hosts, name, network.addresses[at]);
    addresses.push_back(by_name ? name : network.addresses[at]);
  }
  return addresses;
}

// Connections between the hosts by these addresses.
bool Reached(const InitArguments& arguments, const std::vector<Probed>& hosts,
             const std::vector<std::string>& addresses) {
  std::vector<std::string> words;
  for (const Probed& host : hosts) words.push_back(LoginOf(host.host));
  Plan plan = PlanToProbe(arguments, words);
  for (size_t at = 0; at < plan.hosts.size(); ++at) plan.hosts[at].address = addresses.at(at);
  return ReachesAll(Ask(plan, "trying connections between"));
}

// The first network in which the hosts reach each other; the hosts get its addresses. `hosts` have answered, and
// `reached`: by the names that the user has given.
Choice ChooseNetwork(const InitArguments& arguments, bool reached, std::vector<Probed>& hosts) {
  const bool is_local =
      std::ranges::any_of(hosts, [](const Probed& host) { return host.host.local; });
  if (hosts.size() < 2 || is_local) return {{}, reached};
  std::vector<std::vector<protocol::NetworkFact>> networks;
  std::vector<std::string> names;
  for (const Probed& host : hosts) {
    networks.push_back(host.report.facts->networks);
    names.push_back(host.host.address);
  }
  for (CommonNetwork& network : CommonNetworks(networks)) {
    const std::vector<std::string> addresses = AddressesIn(network, hosts);
    if (addresses == names ? !reached : !Reached(arguments, hosts, addresses)) continue;
    for (size_t at = 0; at < hosts.size(); ++at) hosts[at].host.address = addresses[at];
    return {std::move(network), true};
  }
  return {{}, reached};
}

// The file ----------------------------------------------------------------------------------------

// "8 x NVIDIA H100 80GB HBM3", "no GPU"
std::string GpuWords(const protocol::HostFacts& facts) {
  if (facts.gpus.empty()) {
    return facts.gpu_trouble.empty() ? "no GPU" : "GPUs not known: " + facts.gpu_trouble;
  }
  std::map<std::string, int> counts;
  for (const std::string& name : facts.gpus) ++counts[name];
  std::vector<std::string> words;
  for (const auto& [name, count] : counts) words.push_back(fmt::format("{} x {}", count, name));
  return fmt::format("{}", fmt::join(words, ", "));
}

std::string PythonText(const protocol::HostFacts& facts, const std::string& python) {
  if (!facts.python || facts.python->version.empty()) return "no " + python;
  std::string words = "Python " + facts.python->version;
  for (const auto& [package, version] : facts.python->packages) {
    words += version.empty() ? fmt::format(" without {}", package)
                             : fmt::format(", {} {}", package, version);
  }
  return words;
}

std::string ClockText(const HostReport& report) {
  if (!report.clock) return "";
  const double ahead = std::chrono::duration<double>(report.clock->ahead).count();
  if (ahead < kClockNotice && ahead > -kClockNotice) return "";
  return fmt::format(", clock {:+.1f} s from this machine's", ahead);
}

// What a host is, behind its line.
std::string Remark(const Probed& probed) {
  return Harmless(fmt::format("{}; {}{}", GpuWords(*probed.report.facts),
                              PythonText(*probed.report.facts, probed.python),
                              ClockText(probed.report)));
}

std::string EntryOf(const Probed& probed) {
  const HostPlan& host = probed.host;
  const std::string slots = probed.slots == 1 ? "" : fmt::format(", slots = {}", probed.slots);
  const bool by_name = host.address == host.ssh;
  if (by_name && slots.empty()) return TomlText(LoginOf(host));
  if (host.local) return fmt::format("{{ address = {}{} }}", TomlText(host.address), slots);
  return fmt::format("{{ address = {}, ssh = {}{} }}", TomlText(host.address),
                     TomlText(LoginOf(host)), slots);
}

std::string HostLines(const std::vector<Probed>& hosts) {
  std::vector<std::pair<std::string, std::string>> lines;
  size_t width = 0;
  for (const Probed& probed : hosts) {
    if (!probed.report.failure) {
      lines.emplace_back(EntryOf(probed) + ",", Remark(probed));
    } else {
      const Error& error = *probed.report.failure;
      lines.emplace_back(
          fmt::format("# {},", EntryOf(probed)),
          "left out: " + Harmless(fmt::format("{}: {}", PhaseName(error.phase()), error.cause())));
    }
    width = std::max(width, lines.back().first.size());
  }
  std::string text;
  for (const auto& [entry, remark] : lines)
    text += fmt::format("  {:<{}}  # {}\n", entry, width, remark);
  return text;
}

std::string NetworkComment(const Choice& choice) {
  if (choice.network) {
    const std::set<std::string> interfaces(choice.network->interfaces.begin(),
                                           choice.network->interfaces.end());
    return fmt::format("# Among themselves they use {} ({}, {}).\n", choice.network->network,
                       Harmless(fmt::format("{}", fmt::join(interfaces, ", "))),
                       SpeedText(choice.network->speed_mbit));
  }
  if (choice.reached) return "";
  return "# Not every host could connect to every other one: tfdist check says which.\n";
}

constexpr std::string_view kMirroredComment =
    "# a worker on each host (MultiWorkerMirroredStrategy, horovod, torchrun). \"uai\": a "
    "parameter "
    "server on\n# each host, the chief on the first, workers on the others; \"roles\": as you say, "
    "configs/README.md";
constexpr std::string_view kUaiComment =
    "# a parameter server on each host, the chief on the first, workers on the others. "
    "\"mirrored\": a worker on\n# each host; \"roles\": as you say, configs/README.md";

bool IsHomeOrRoot(const fs::path& folder) {
  const char* home = std::getenv("HOME");
  std::error_code none;
  return folder == folder.root_path() || (home != nullptr && fs::equivalent(folder, home, none));
}

// What was said on the command line.
std::string SshText(const SshOptions& ssh) {
  std::string keys;
  if (!ssh.config.empty()) {
    keys += fmt::format("config = {}\n", TomlText(fs::absolute(ssh.config).string()));
  }
  if (ssh.transport != "auto") keys += fmt::format("transport = {}\n", TomlText(ssh.transport));
  return keys.empty() ? "" : "\n[ssh]\n" + keys;
}

std::string FileText(const InitArguments& arguments, const Plan& plan,
                     const std::vector<Probed>& hosts, const Choice& choice,
                     const fs::path& folder) {
  std::string text = fmt::format(
      "# Written by tfdist init. Next: tfdist check FILE; tfdist up FILE.\n"
      "name = {}\n\n[cluster]\nhosts = [\n{}]\n{}",
      TomlText(plan.name), HostLines(hosts), NetworkComment(choice));
  text += fmt::format("layout = {}\n{}\n\n[task]\ncommand = {}\n", TomlText(plan.layout),
                      plan.layout == "mirrored" ? kMirroredComment : kUaiComment,
                      TomlList(arguments.command));
  text +=
      IsHomeOrRoot(folder)
          ? "# workdir = \".\"  # this file's folder would be sent to each host: move the file to "
            "your program first\n"
          : "workdir = \".\"  # this file's folder is sent to each host, without what .gitignore "
            "names\n";
  text += "# gpus = 0        # default \"auto\": the tasks of a host share its GPUs evenly\n";
  return text + SshText(plan.ssh) + "\n# All keys: configs/README.md\n";
}

json HostJson(const Probed& probed) {
  json host = {{"host", probed.host.name},
               {"address", probed.host.address},
               {"slots", probed.slots},
               {"state", "ok"},
               {"why", ""},
               {"gpus", nullptr},
               {"python", nullptr}};
  if (const auto& failure = probed.report.failure) {
    host["state"] = PhaseName(failure->phase());
    host["why"] = failure->cause();
  } else {
    host["gpus"] = probed.report.facts->gpus;
    host["python"] = PythonText(*probed.report.facts, probed.python);
  }
  return host;
}

void PrintInitAsJson(const InitArguments& arguments, const std::vector<Probed>& hosts,
                     const std::string& text) {
  json value = {{"file", arguments.output.empty() ? json() : json(arguments.output)},
                {"text", text},
                {"hosts", json::array()}};
  for (const Probed& probed : hosts) value["hosts"].push_back(HostJson(probed));
  PrintJson(value);
}

// Never over a file that is there.
void WriteNew(const fs::path& path, const std::string& text) {
  const UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!fd.valid() && errno == EEXIST) {
    throw UsageError(Phase::kUsage, fmt::format("{} exists", path.string()),
                     "remove it, or write to another one with --output");
  }
  if (!fd.valid()) throw Error(Phase::kFiles, WithErrno(path.string(), errno));
  try {
    WriteAll(fd.get(), text, path.string());
  } catch (const Error&) {
    unlink(path.c_str());  // an empty one would keep the next `init` from writing
    throw;
  }
}

void RefuseFileThatExists(const std::string& output) {
  std::error_code none;
  if (output.empty() || !fs::exists(fs::symlink_status(output, none))) return;
  throw UsageError(Phase::kUsage, fmt::format("{} exists", output),
                   "remove it, or write to another one with --output");
}

// `init gpu1 python3 train.py`, without the dashes.
void RefuseFilesAsHosts(const std::vector<std::string>& hosts) {
  std::error_code none;
  for (const std::string& host : hosts) {
    if (!fs::is_regular_file(host, none)) continue;
    throw UsageError(Phase::kUsage, fmt::format("{} is a file here, and hosts are expected", host),
                     "the command goes after --: tfdist init gpu1 gpu2 -- python3 train.py");
  }
}

// `init gpu1 -- python3 train.py -o cluster.toml`.
void RefuseOutputInCommand(const InitArguments& arguments) {
  const std::vector<std::string>& words = arguments.command;
  if (words.size() < 2 || !arguments.output.empty()) return;
  const std::string& option = words[words.size() - 2];
  if ((option != "-o" && option != "--output") || !words.back().ends_with(".toml")) return;
  throw UsageError(
      Phase::kUsage,
      fmt::format("{} {} stands after --, where all words are the command's", option, words.back()),
      fmt::format("tfdist init {} -o {} -- COMMAND", fmt::join(arguments.hosts, " "),
                  words.back()));
}

}  // namespace

int InitCommand(InitArguments arguments) {
  if (arguments.output == "-") arguments.output.clear();
  RefuseFilesAsHosts(arguments.hosts);
  RefuseOutputInCommand(arguments);
  if (arguments.command.empty()) arguments.command = {"python3", "train.py"};
  RefuseFileThatExists(arguments.output);
  const Plan plan = PlanToProbe(arguments, arguments.hosts);
  std::vector<HostReport> reports = Ask(plan, "asking");
  const bool reached = ReachesAll(reports);
  std::vector<Probed> hosts = ProbedHosts(plan, std::move(reports), PythonOf(arguments.command));
  const auto failed = std::stable_partition(
      hosts.begin(), hosts.end(), [](const Probed& host) { return !host.report.failure; });
  const std::vector<Probed> silent(failed, hosts.end());
  hosts.erase(failed, hosts.end());
  std::vector<Error> errors;
  for (const Probed& host : silent) errors.push_back(*host.report.failure);
  PrintErrors(errors);
  if (hosts.empty()) {
    Say("tfdist: no host has answered; nothing was written\n");
    return kExitHost;
  }
  const Choice choice = ChooseNetwork(arguments, reached, hosts);
  const fs::path folder =
      arguments.output.empty() ? fs::current_path() : fs::absolute(arguments.output).parent_path();
  hosts.insert(hosts.end(), silent.begin(), silent.end());
  const std::string text = FileText(arguments, plan, hosts, choice, folder);
  if (!arguments.output.empty()) WriteNew(arguments.output, text);
  if (arguments.json) {
    PrintDone(arguments.output.empty() ? "no file was written" : "wrote " + arguments.output,
              [&] { PrintInitAsJson(arguments, hosts, text); });
  } else if (arguments.output.empty()) {
    PrintLines(text);
  } else {
    Say("tfdist: wrote {}: {}; tfdist check {}\n", arguments.output,
        CountedOf(hosts.size() - silent.size(), hosts.size(), "host"), arguments.output);
  }
  return errors.empty() ? kExitSuccess : kExitHost;
}

}  // namespace tfdist::cli
