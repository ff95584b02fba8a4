#include "cli/find/kept_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "cli/hosts/for_each_host.h"
#include "cli/job/connector.h"
#include "cli/job/state_folder.h"
#include "cli/link/house.h"

namespace tfdist::cli {
namespace {

constexpr std::chrono::seconds kKeptLimit{30};

// As scp(1) takes it.
std::string PlaceOf(const HostPlan& host, const std::string& folder) {
  if (host.local) return folder;
  const std::string user = host.ssh_user.empty() ? "" : host.ssh_user + "@";
  return fmt::format("{}{}:{}", user, host.ssh, folder);
}

}  // namespace

std::optional<protocol::KeptClaim> ClaimToKept(const Plan& plan, bool take) {
  if (std::ranges::none_of(plan.tasks, protocol::NamesKeptFolder<TaskOnHost>)) return std::nullopt;
  return protocol::KeptClaim{plan.name, HomeId(), UserAndMachine(), take};
}

std::string HowToReachKept(const std::vector<HostPlan>& hosts, const SshOptions& ssh,
                           const std::string& name) {
  std::vector<std::vector<std::string>> places(hosts.size());
  // A host that does not answer shows nothing.
  (void)ForEachHost(hosts.size(), [&](size_t at) {
    const auto transport = MakeTransport(hosts[at], ssh);
    for (const KeptHere& kept :
         FindKept({*transport, GetEmbeddedAgents(), ssh.remote_dir, kKeptLimit}, "", 0, name)) {
      places[at].push_back(PlaceOf(hosts[at], kept.folder));
    }
  });
  std::set<std::string> all;
  for (const auto& of_host : places) all.insert(of_host.begin(), of_host.end());
  if (all.empty()) return "";
  return fmt::format(
      "what jobs called {} keep is still there, and the next one finds it: scp -r {} . brings it "
      "home{}; tfdist clean --purge removes it",
      name, *all.begin(),
      all.size() == 1 ? "" : fmt::format(" (the same from {} more)", all.size() - 1));
}

}  // namespace tfdist::cli
