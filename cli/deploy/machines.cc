#include "cli/deploy/machines.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>

#include "cli/cluster_file/host_address.h"

namespace tfdist::cli {
namespace {

using Answers = std::vector<std::optional<protocol::ResolvedNames>>;

// As the plan has it.
std::string NameOf(const HostPlan& host) { return CanonicalAddress(host.address); }

bool IsOwnLoopback(const std::string& address) {
  return IsNumericAddress(address) && IsLoopback(address) && address != "::1" &&
         address != "127.0.0.1" && address != "127.0.1.1";
}

// Of names, as any host resolves them.
std::map<std::string, std::string> OwnLoopbacks(const Answers& answers) {
  std::map<std::string, std::string> loopbacks;
  for (const auto& answer : answers) {
    if (!answer) continue;
    for (const auto& name : answer->names) {
      const auto own = std::ranges::find_if(name.addresses, IsOwnLoopback);
      if (own != name.addresses.end()) loopbacks.try_emplace(name.name, *own);
    }
  }
  return loopbacks;
}

// Equal texts are one machine.
std::string KeyOf(const HostPlan& host, const std::string& told,
                  const std::map<std::string, std::string>& loopbacks) {
  if (told.empty()) return "as " + (host.local ? "" : NameOf(host));
  if (IsOwnLoopback(host.address)) return told + ' ' + host.address;
  const auto own = loopbacks.find(host.address);
  return own == loopbacks.end() ? told : told + ' ' + own->second;
}

// Ports of its tasks, each with the name of the plan that is to have it.
std::multimap<int, std::string> PortsOn(const Plan& plan, const SlotsOfMachine& machine) {
  std::set<std::pair<int, std::string>> ports;
  for (const TaskOnHost& task : plan.tasks) {
    if (std::ranges::find(machine.slots, task.slot) == machine.slots.end()) continue;
    const std::string& name = plan.hosts[static_cast<size_t>(task.slot)].name;
    if (task.port != 0) ports.emplace(task.port, name);
    for (const auto& [label, port] : task.more_ports) ports.emplace(port, name);
  }
  return {ports.begin(), ports.end()};
}

}  // namespace

std::vector<SlotsOfMachine> GroupByMachine(const Plan& plan, const std::vector<std::string>& told,
                                           const Answers& answers) {
  const auto loopbacks = OwnLoopbacks(answers);
  std::map<std::string, size_t> places;
  std::vector<SlotsOfMachine> machines;
  for (size_t slot = 0; slot < plan.hosts.size(); ++slot) {
    const HostPlan& host = plan.hosts[slot];
    const std::string key = KeyOf(host, told[slot], loopbacks);
    const auto [place, is_new] = places.try_emplace(key, machines.size());
    if (is_new) machines.emplace_back();
    SlotsOfMachine& machine = machines[place->second];
    const bool is_known = std::ranges::any_of(machine.slots, [&](int other) {
      return NameOf(plan.hosts[static_cast<size_t>(other)]) == NameOf(host);
    });
    machine.slots.push_back(static_cast<int>(slot));
    if (!is_known) machine.names.push_back(host.name);
  }
  for (SlotsOfMachine& machine : machines) {
    if (machine.names.size() < 2) continue;
    const auto ports = PortsOn(plan, machine);
    for (const auto& [port, name] : ports) {
      if (ports.count(port) > 1) machine.shared_ports.insert(port);
    }
  }
  return machines;
}

NameWarning SharedBy(const Plan& plan, const SlotsOfMachine& machine) {
  const auto& ports = machine.shared_ports;
  const std::string listen = ports.empty()
                                 ? ""
                                 : fmt::format(", and more than one task is to listen on port{} {}",
                                               ports.size() > 1 ? "s" : "", fmt::join(ports, ", "));
  const std::string& address = plan.hosts[static_cast<size_t>(machine.slots[0])].address;
  return {fmt::format("{} are one machine{}", fmt::join(machine.names, ", "), listen),
          fmt::format("list it once, or LOCAL_RANK begins anew under each name; to count it as {0} "
                      "hosts: {1}:{0} after -H, or {{ address = "
                      "\"{1}\", slots = {0} }}",
                      machine.slots.size(), address)};
}

}  // namespace tfdist::cli
