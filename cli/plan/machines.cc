#include "cli/plan/machines.h"

#include <map>
#include <string>

#include "cli/cluster_file/host_address.h"

namespace tfdist::cli {
namespace {

std::string MachineName(const HostEntry& host) {
  const bool here = host.local || (IsLoopback(host.address) && !host.own_ssh);
  return here ? "" : CanonicalAddress(host.address);
}

}  // namespace

std::vector<int> NumberMachines(const std::vector<HostEntry>& hosts) {
  std::map<std::string, int> numbers;
  std::vector<int> machines;
  for (const HostEntry& host : hosts) {
    const int next = static_cast<int>(numbers.size());
    machines.push_back(numbers.try_emplace(MachineName(host), next).first->second);
  }
  return machines;
}

}  // namespace tfdist::cli
