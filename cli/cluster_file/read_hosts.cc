#include "cli/cluster_file/read_hosts.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "cli/cluster_file/host_address.h"
#include "cli/cluster_file/host_range.h"
#include "cli/cluster_file/host_words.h"
#include "cli/cluster_file/known_keys.h"
#include "cli/cluster_file/read_env.h"
#include "cli/cluster_file/slurm_hosts.h"

namespace tfdist::cli {
namespace {

constexpr int kHighestGpu = 1023;
constexpr size_t kLongestUuid = 80;

constexpr std::string_view kTransports[] = {"auto", "ssh", "openssh", "srun", "local"};

// "trainer@gpu[01-04]:2200" as checked addresses with what SSH needs.
std::optional<std::vector<HostWords>> ReadAddresses(std::string_view text, const Where& where,
                                                    Problems& problems) {
  auto hosts = ParseHosts(text, HostNumber::kPort);
  if (const auto* bad = std::get_if<BadAddress>(&hosts)) {
    problems.Add(where, bad->why, bad->hint);
    return std::nullopt;
  }
  return std::get<std::vector<HostWords>>(std::move(hosts));
}

std::optional<std::vector<HostWords>> ReadSshNames(const Located<std::string>& text,
                                                   size_t expected, Problems& problems) {
  auto expanded = ExpandHostList(text.value);
  if (const auto* bad = std::get_if<BadRange>(&expanded)) {
    problems.Add(text.where, bad->why);
    return std::nullopt;
  }
  std::vector<HostWords> hosts;
  for (const std::string& name : std::get<std::vector<std::string>>(expanded)) {
    auto split = SplitHost(name, HostNumber::kPort);
    const auto* words = std::get_if<HostWords>(&split);
    if (words == nullptr || !IsSshName(WithoutBrackets(words->host))) {
      problems.Add(text.where, fmt::format("{} is no host for ssh", Quoted(text.value)),
                   "write an alias of ~/.ssh/config, or \"user@host:port\"");
      return std::nullopt;
    }
    hosts.push_back(*words);
    hosts.back().host = WithoutBrackets(words->host);
  }
  if (hosts.size() != expected) {
    problems.Add(text.where,
                 fmt::format("names {} hosts, and address names {}", hosts.size(), expected));
    return std::nullopt;
  }
  return hosts;
}

// What SSH is told of the host; whatever is not said here comes from [ssh] or ~/.ssh/config.
void SetLogin(const HostWords& words, HostEntry& host) {
  host.ssh_user = words.user;
  host.ssh_port = words.port;
  host.own_ssh = host.own_ssh || !words.user.empty() || words.port;
  if (host.own_ssh) host.local = false;
}

HostEntry PlainHost(const HostWords& words, const Where& where) {
  HostEntry host;
  host.where = where;
  host.local = CanonicalAddress(words.host) == "localhost";
  host.ssh = words.host;
  host.address = words.host;
  SetLogin(words, host);
  return host;
}

std::optional<std::vector<HostEntry>> ReadPlainHosts(const Field& field, Problems& problems) {
  const std::optional<std::string> text = ReadLine(field, problems);
  if (!text) return std::nullopt;
  auto addresses = ReadAddresses(*text, field.where, problems);
  if (!addresses) return std::nullopt;
  std::vector<HostEntry> hosts;
  hosts.reserve(addresses->size());
  for (const HostWords& words : *addresses) hosts.push_back(PlainHost(words, field.where));
  return hosts;
}

// What a host's table says beside its names; the same for each host of a range.
void ReadDetails(const TableReader& table, HostEntry& host, Problems& problems) {
  host.table = true;
  if (const auto transport = table.Choice("transport", kTransports)) {
    host.local = transport->value == "local";
    if (!host.local) host.transport = transport->value;
  } else if (table.Find("ssh")) {
    host.local = false;
  }
  if (host.local && table.Find("ssh")) {
    problems.Add(table.At("ssh"), "a local host is not reached over SSH",
                 "leave out ssh, or transport = \"local\"");
  }
  if (const auto spare = table.Flag("spare")) host.spare = spare->value;
  if (const auto slots = table.Number("slots", 1, kMostSlots)) host.slots = slots->value;
  if (const auto gpus = table.Find("gpus")) host.gpus = ReadGpuList(*gpus, true, problems);
  if (const auto env = table.Find("env")) host.env = ReadEnv(*env, problems);
}

std::optional<std::vector<HostEntry>> ReadTableOfHosts(const Field& field, Problems& problems) {
  const TableReader table(*ReadTable(field, problems), field.where, kHostKeys, problems);
  if (table.Lacks("address")) {
    problems.Add(field.where, "a host needs an address", "write { address = \"10.0.0.9\", ... }");
  }
  const auto text = table.Line("address");
  const auto ssh = table.Line("ssh");
  HostEntry details;
  if (text) details.local = CanonicalAddress(text->value) == "localhost";
  ReadDetails(table, details, problems);
  if (!text) return std::nullopt;
  const auto addresses = ReadAddresses(text->value, text->where, problems);
  if (!addresses) return std::nullopt;
  const auto names = ssh ? ReadSshNames(*ssh, addresses->size(), problems) : addresses;
  if (!names) return std::nullopt;

  std::vector<HostEntry> hosts(addresses->size(), details);
  for (size_t i = 0; i < hosts.size(); ++i) {
    hosts[i].where = field.where;
    hosts[i].address = (*addresses)[i].host;
    hosts[i].ssh = (*names)[i].host;
    hosts[i].own_ssh = ssh.has_value();
    HostWords login = (*names)[i];
    if (login.user.empty()) login.user = (*addresses)[i].user;
    if (!login.port) login.port = (*addresses)[i].port;
    if (!details.local) SetLogin(login, hosts[i]);
  }
  return hosts;
}

std::optional<std::vector<HostEntry>> ReadHost(const Field& field, Problems& problems) {
  if (std::holds_alternative<std::string>(field.node->value)) {
    return ReadPlainHosts(field, problems);
  }
  if (std::holds_alternative<TomlNode::Table>(field.node->value)) {
    return ReadTableOfHosts(field, problems);
  }
  ReportForm(field, "a host in quotes or { address = \"...\", ... }", problems);
  return std::nullopt;
}

// "GPU-6d2b...", "MIG-e3b2...", or of older drivers "MIG-GPU-6d2b.../1/0".
bool IsGpuUuid(std::string_view text) {
  if (!text.starts_with("GPU-") && !text.starts_with("MIG-")) return false;
  return text.size() <= kLongestUuid && std::ranges::all_of(text, [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '-' || c == '/';
         });
}

std::optional<std::string> ReadGpu(const Field& field, Problems& problems) {
  const auto* text = std::get_if<std::string>(&field.node->value);
  if (text != nullptr && IsGpuUuid(*text)) return *text;
  const auto number = ReadNumber(field, 0, kHighestGpu, problems,
                                 "what nvidia-smi -L calls it (\"GPU-...\", \"MIG-...\"), or ");
  if (!number) return std::nullopt;
  return std::to_string(*number);
}

size_t CountSlots(const std::vector<HostEntry>& hosts) {
  size_t slots = 0;
  for (const HostEntry& host : hosts) slots += static_cast<size_t>(host.slots);
  return slots;
}

HostList ReadFileOfHosts(const Field& field, Problems& problems) {
  const TableReader table(*ReadTable(field, problems), field.where, kHostFileKeys, problems);
  HostList list{field.where, {}, false, table.Line("file")};
  if (table.Lacks("file")) {
    problems.Add(field.where, "expected a list of hosts, or { file = \"nodes.txt\" }");
  }
  return list;
}

}  // namespace

std::optional<std::vector<std::string>> ReadGpuList(const Field& field, bool repeats,
                                                    Problems& problems) {
  const auto elements = ReadArray(field, "a list of GPUs", problems);
  if (!elements) return std::nullopt;
  std::vector<std::string> gpus;
  std::set<std::string> seen;
  for (const Field& element : *elements) {
    const auto gpu = ReadGpu(element, problems);
    if (!gpu) return std::nullopt;
    gpus.push_back(*gpu);
    if (seen.insert(gpus.back()).second || repeats) continue;
    problems.Add(element.where, fmt::format("GPU {} stands here twice", gpus.back()));
    return std::nullopt;
  }
  return gpus;
}

HostEntry EntryOf(const HostWords& words, const Where& where) {
  HostEntry host;
  host.where = where;
  host.address = words.host;
  host.ssh = words.host;
  host.ssh_user = words.user;
  host.ssh_port = words.port;
  host.own_ssh = !words.user.empty() || words.port;
  host.local = !host.own_ssh && CanonicalAddress(words.host) == "localhost";
  host.slots = words.slots.value_or(1);
  return host;
}

HostList ReadHosts(const Field& field, Problems& problems) {
  if (std::holds_alternative<TomlNode::Table>(field.node->value)) {
    return ReadFileOfHosts(field, problems);
  }
  HostList list{field.where, {}, true, {}};
  if (const auto* word = std::get_if<std::string>(&field.node->value);
      word && *word == kHostsOfSlurm) {
    auto hosts = ReadSlurmHosts(field.where, problems);
    list.complete = hosts.has_value();
    if (hosts) list.hosts = *std::move(hosts);
    return list;
  }
  const auto elements =
      ReadArray(field, "a list of hosts, { file = \"nodes.txt\" } or \"slurm\"", problems);
  list.complete = elements.has_value();
  if (!elements) return list;
  size_t slots = 0;
  for (const Field& element : *elements) {
    const auto hosts = ReadHost(element, problems);
    list.complete = list.complete && hosts.has_value();
    if (!hosts) continue;
    slots += CountSlots(*hosts);
    if (slots > kMostHosts) {
      problems.Add(element.where, fmt::format("more than {} hosts", kMostHosts));
      return HostList{field.where, {}, false, {}};
    }
    list.hosts.insert(list.hosts.end(), hosts->begin(), hosts->end());
  }
  return list;
}

}  // namespace tfdist::cli
