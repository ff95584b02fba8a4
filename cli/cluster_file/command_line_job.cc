#include "cli/cluster_file/command_line_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "cli/cluster_file/host_range.h"
#include "cli/cluster_file/host_words.h"
#include "cli/cluster_file/read_cluster_file.h"
#include "cli/cluster_file/read_env.h"
#include "cli/cluster_file/read_hosts.h"
#include "cli/cluster_file/set_values.h"
#include "cli/cluster_file/slurm_hosts.h"

namespace tfdist::cli {
namespace {

constexpr size_t kLongestJobName = 40;
const Where kHosts{0, 0, "-H"};

const std::string kOfSlots = fmt::format("a number of slots from 1 to {}", kMostSlots);
constexpr const char* kWhereAPortStands =
    "behind the colon stand slots; SSH's port stands in ~/.ssh/config, in ssh://user@gpu1:2200, or "
    "in "
    "a cluster file: \"user@gpu1:2200\"";

// "[fd00::7]:22": brackets are how ssh users write a port.
constexpr int kPortOfSsh = 22;

HostList ReadHostLists(const std::vector<std::string>& lists, Problems& problems) {
  HostList hosts{kHosts, {}, true, {}};
  size_t slots = 0;
  for (const std::string& list : lists) {
    for (const std::string& item : SplitHostList(list)) {
      if (item == kHostsOfSlurm) {
        const auto nodes = ReadSlurmHosts(kHosts, problems);
        hosts.complete = hosts.complete && nodes;
        if (!nodes) continue;
        for (const HostEntry& node : *nodes) slots += static_cast<size_t>(node.slots);
        hosts.hosts.insert(hosts.hosts.end(), nodes->begin(), nodes->end());
        continue;
      }
      const auto parsed = ParseHosts(item, HostNumber::kSlots);
      if (const auto* bad = std::get_if<BadAddress>(&parsed)) {
        const bool is_number = bad->why.ends_with(kOfSlots);
        problems.Add(kHosts, bad->why, is_number ? kWhereAPortStands : bad->hint);
        hosts.complete = false;
        continue;
      }
      for (const HostWords& words : std::get<std::vector<HostWords>>(parsed)) {
        const bool is_ipv6 = words.host.find(':') != std::string::npos;
        if (is_ipv6 && words.slots == kPortOfSsh && !words.port) {
          problems.Add(kHosts, fmt::format("{}: 22 slots, or SSH's port?", Quoted(item)),
                       fmt::format("SSH's port: ssh://{0}; 22 slots: ssh://{0}:22", item));
          hosts.complete = false;
          break;
        }
        hosts.hosts.push_back(EntryOf(words, kHosts));
        slots += static_cast<size_t>(hosts.hosts.back().slots);
      }
    }
  }
  if (slots > kMostHosts) {
    problems.Add(kHosts, "more than " + std::to_string(kMostHosts) + " slots");
    return {kHosts, {}, false, {}};
  }
  return hosts;
}

// A module or a script, before what runs it.
std::string ProgramIn(const std::vector<std::string>& command) {
  for (size_t i = 0; i < command.size(); ++i) {
    const std::filesystem::path word = command[i];
    if (word.extension() == ".py" || word.extension() == ".sh") return word.stem().string();
    if (i > 0 && command[i - 1] == "-m") return command[i].substr(command[i].rfind('.') + 1);
  }
  return command.empty() ? "" : std::filesystem::path(command.front()).filename().string();
}

bool IsJobNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// Of a key of the file: the option that says it.
struct OptionOfKey {
  std::string_view key;
  std::string_view option;
};
constexpr OptionOfKey kOptions[] = {
    {"name", "--name"},
    {"cluster.hosts", "-H"},
    {"cluster.layout", "--layout"},
    {"task.command", "what follows --"},
    {"task.workdir", "--workdir"},
    {"ssh.config", "-F"},
    {"ssh.transport", "--transport"},
};

bool Says(const TomlNode::Table& table, std::string_view key) {
  const size_t dot = key.find('.');
  const auto found = std::ranges::find(table, key.substr(0, dot), &TomlEntry::key);
  if (found == table.end()) return false;
  if (dot == key.npos) return true;
  const auto* below = std::get_if<TomlNode::Table>(&found->node.value);
  return below != nullptr && Says(*below, key.substr(dot + 1));
}

// Options would win over them without a word. A setting may say a whole table: "cluster={hosts=[...]}".
void RefuseKeysOfOptions(const std::vector<std::string>& settings, Problems& problems) {
  TomlNode::Table said;
  Problems reported_elsewhere;
  SetValues(settings, said, reported_elsewhere);
  for (const auto& [key, option] : kOptions) {
    if (!Says(said, key)) continue;
    problems.Add({0, 0, "--set"}, fmt::format("{}: with -H it is {} that says it", key, option));
  }
}

ClusterFile FileOfSettings(const std::vector<std::string>& settings, Problems& problems) {
  if (settings.empty()) return {};
  RefuseKeysOfOptions(settings, problems);
  return ReadClusterFile("name = \"job\"", settings, problems).value_or(ClusterFile());
}

}  // namespace

std::string JobNameOf(const std::vector<std::string>& command) {
  std::string name;
  for (const char c : ProgramIn(command)) {
    if (name.size() == kLongestJobName) break;
    if (IsJobNameCharacter(c)) {
      name += c;
    } else if (!name.empty() && name.back() != '-') {
      name += '-';
    }
  }
  while (name.ends_with('-')) name.pop_back();
  return name.empty() ? "job" : name;
}

std::map<std::string, std::string> ReadGivenEnv(const std::vector<std::string>& env,
                                                Problems& problems) {
  const Where where{0, 0, "--env"};
  std::map<std::string, std::string> given;
  for (const std::string& word : env) {
    const size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    if (const std::string why = WhyNotEnv(name); !why.empty()) {
      problems.Add(where, why);
    } else if (equals != std::string::npos) {
      given[name] = word.substr(equals + 1);
    } else if (const char* value = std::getenv(name.c_str())) {  // NOLINT(concurrency-mt-unsafe)
      given[name] = value;
    } else {
      problems.Add(where, fmt::format("{} is not set in your shell", name),
                   fmt::format("export it, or --env {}=VALUE", name));
    }
  }
  return given;
}

ClusterFile ClusterFileOf(const CommandLineJob& job, Problems& problems) {
  ClusterFile file = FileOfSettings(job.settings, problems);
  file.cluster = {0, 0, "cluster"};
  file.name = job.name.empty() ? JobNameOf(job.command) : job.name;
  file.name_is_made = job.name.empty();
  file.port_draw = job.port_draw;
  file.apart = job.apart;
  if (!CheckJobName(file.name, {0, 0, "--name"}, problems)) file.name.clear();
  file.hosts = ReadHostLists(job.hosts, problems);
  file.hosts_missing = false;
  file.layout = {job.layout, {0, 0, "--layout"}};
  file.task.command.emplace();
  file.task.command_said = true;
  const Where command{0, 0, "command"};
  for (const std::string& word : job.command) file.task.command->push_back({word, command});
  if (job.workdir) file.workdir = Located<std::string>{*job.workdir, {0, 0, "--workdir"}};
  if (!job.ssh_config.empty()) {
    file.ssh.config = Located<std::string>{job.ssh_config, {0, 0, "--ssh-config"}};
  }
  if (!job.transport.empty()) file.ssh.transport = job.transport;
  file.given_env = ReadGivenEnv(job.env, problems);
  return file;
}

}  // namespace tfdist::cli
