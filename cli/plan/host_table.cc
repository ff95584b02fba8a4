#include "cli/plan/host_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "cli/cluster_file/host_address.h"

namespace tfdist::cli {
namespace {

bool IsOfCommandLine(const HostEntry& host) { return host.where.line == 0; }

std::string TwoSlotsOf(const HostEntry& host) {
  if (IsOfCommandLine(host)) return host.address + ":2";
  return fmt::format("{{ address = \"{}\", slots = 2 }}", host.address);
}

}  // namespace

void HostTable::Add(const HostEntry& host) {
  if (!slots_.contains(CanonicalAddress(host.address))) {
    Append(host);
    return;
  }
  problems_->Add(host.where, fmt::format("{} is listed twice", host.address),
                 fmt::format("to use it as two hosts, write {}", TwoSlotsOf(host)));
}

std::vector<int> HostTable::FindOrAdd(const HostEntry& host) {
  if (host.spare) {
    problems_->Add(host.where, "a spare host serves the whole job", "list it in [cluster] hosts");
    return {};
  }
  const auto known = slots_.find(CanonicalAddress(host.address));
  if (known == slots_.end()) return Append(host);
  const HostEntry& first = hosts_[static_cast<size_t>(known->second.front())];
  const bool other_login = (!host.ssh_user.empty() && host.ssh_user != first.ssh_user) ||
                           (host.ssh_port && host.ssh_port != first.ssh_port);
  if (host.table || other_login) {
    problems_->Add(
        host.where,
        fmt::format("{} is described on line {} already", host.address, first.where.line),
        fmt::format("name it by its address here: \"{}\"", host.address));
  }
  return known->second;
}

std::vector<int> HostTable::AllSlots() const {
  std::vector<int> slots(hosts_.size());
  std::iota(slots.begin(), slots.end(), 0);
  return slots;
}

std::vector<int> HostTable::Append(const HostEntry& host) {
  std::vector<int>& slots = slots_[CanonicalAddress(host.address)];
  for (int i = 0; i < host.slots; ++i) {
    slots.push_back(static_cast<int>(hosts_.size()));
    hosts_.push_back(host);
  }
  return slots;
}

void CheckReachable(const std::vector<HostEntry>& hosts, Problems& problems) {
  const auto is_loopback = [](const HostEntry& host) { return IsLoopback(host.address); };
  if (std::all_of(hosts.begin(), hosts.end(), is_loopback)) return;
  for (const HostEntry& host : hosts) {
    if (!is_loopback(host)) continue;
    problems.Add(
        host.where, fmt::format("the other hosts cannot reach this one as {}", host.address),
        IsOfCommandLine(host) ? "name it as the others know it; SSH must reach it by that name, too"
                              : "give the address that they know it by; for this machine: "
                                "{ address = \"...\", transport = \"local\" }");
  }
}

}  // namespace tfdist::cli
