#include "cli/hosts/host_names.h"

#include <map>
#include <string>
#include <utility>

#include "cli/cluster_file/host_address.h"
#include "cli/hosts/for_each_host.h"
#include "cli/job/connector.h"

namespace tfdist::cli {

void AskForHostNames(std::vector<HostPlan>& hosts, const SshOptions& ssh) {
  std::map<std::string, std::vector<HostPlan*>> by_name;  // a host has several slots
  for (HostPlan& host : hosts) {
    if (!host.local && host.ssh == host.address) by_name[host.ssh].push_back(&host);
  }
  std::vector<std::vector<HostPlan*>> named;
  for (auto& [name, slots] : by_name) named.push_back(std::move(slots));
  (void)ForEachHost(named.size(), [&](size_t at) {
    const HostPlan& first = *named[at].front();
    const std::string host_name = HostNameOf(first, ssh);
    if (CanonicalAddress(host_name) == CanonicalAddress(first.address)) return;
    for (HostPlan* host : named[at]) host->host_name = host_name;
  });
}

}  // namespace tfdist::cli
