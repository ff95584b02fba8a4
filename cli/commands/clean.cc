#include <fmt/format.h>

#include "cli/commands/commands.h"
#include "cli/commands/exit_codes.h"
#include "cli/deploy/connector.h"
#include "cli/link/bootstrap.h"

namespace tfdist::cli {
namespace {

using namespace std::chrono_literals;

constexpr auto kHostLimit = 60s;

// Ids of jobs that run on any of the hosts: homes may be shared, and a folder of theirs with them.
std::vector<std::string> RunningJobs(const Plan& plan) {
  std::vector<std::string> running;
  for (const HostPlan& host : plan.hosts) {
    const TimePoint deadline = SystemClock().Now() + kHostLimit;
    const auto transport = MakeTransport(host, plan.ssh);
    for (const RemoteJob& job :
         FindJobs(transport->OpenShell(deadline), plan.ssh.remote_dir, "", deadline)) {
      if (job.running) running.push_back(job.job);
    }
  }
  return running;
}

}  // namespace

int CleanCommand(const CleanArguments& arguments) {
  const Plan plan = LoadPlan(arguments.file);
  const std::vector<std::string> running = RunningJobs(plan);
  for (const HostPlan& host : plan.hosts) {
    const TimePoint deadline = SystemClock().Now() + kHostLimit;
    const auto transport = MakeTransport(host, plan.ssh);
    const Removal removal =
        Clean(transport->OpenShell(deadline), plan.ssh.remote_dir, running, deadline);
    for (const std::string& path : removal.removed) {
      fmt::print("{}: removed {}\n", host.name, path);
    }
    for (const std::string& kept : removal.kept) fmt::print("{}: kept {}\n", host.name, kept);
  }
  return kExitSuccess;
}

}  // namespace tfdist::cli
