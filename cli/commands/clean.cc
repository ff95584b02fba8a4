#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "cli/commands/commands.h"
#include "cli/commands/exit_codes.h"
#include "cli/commands/for_each_host.h"
#include "cli/commands/report.h"
#include "cli/job/connector.h"
#include "cli/link/bootstrap.h"

namespace tfdist::cli {
namespace {

using namespace std::chrono_literals;

constexpr auto kHostLimit = 60s;

// What `ask` says of a host, or why it could not be asked.
template <typename Answer>
struct HostAnswer {
  Answer answer;
  std::optional<Error> error;
};

template <typename Answer, typename Ask>
std::vector<HostAnswer<Answer>> AskAll(const Plan& plan, Ask ask) {
  std::vector<HostAnswer<Answer>> answers(plan.hosts.size());
  const auto failures = ForEachHost(plan.hosts.size(), [&](size_t slot) {
    const TimePoint deadline = SystemClock().Now() + kHostLimit;
    const auto transport = MakeTransport(plan.hosts[slot], plan.ssh);
    answers[slot].answer = ask(transport->OpenShell(deadline), deadline);
  });
  for (size_t slot = 0; slot < answers.size(); ++slot) {
    if (failures[slot]) answers[slot].error = failures[slot]->WithHost(plan.hosts[slot].name);
  }
  return answers;
}

// Slots of one machine share a folder.
Plan OncePerMachine(Plan plan) {
  std::set<std::pair<bool, std::string>> seen;
  std::erase_if(plan.hosts, [&](const HostPlan& host) {
    return !seen.emplace(host.local, host.local ? "" : host.ssh).second;
  });
  return plan;
}

// Ids of jobs that run on any of the hosts: homes may be shared, and a folder of theirs with them.
// nullopt when a host did not answer, which has been said.
std::optional<std::vector<std::string>> RunningJobs(const Plan& plan) {
  const auto answers = AskAll<std::vector<RemoteJob>>(plan, [&](auto channel, TimePoint deadline) {
    return FindJobs(std::move(channel), plan.ssh.remote_dir, "", deadline);
  });
  std::vector<std::string> running;
  bool all_answered = true;
  for (const auto& host : answers) {
    if (host.error) PrintError(*host.error);
    all_answered = all_answered && !host.error;
    for (const RemoteJob& job : host.answer) {
      if (job.running) running.push_back(job.job);
    }
  }
  if (!all_answered) return std::nullopt;
  return running;
}

}  // namespace

int CleanCommand(const CleanArguments& arguments) {
  const Plan plan = OncePerMachine(LoadPlan(arguments.file));
  const auto running = RunningJobs(plan);
  if (!running) {
    PrintError(Error(Phase::kDown,
                     "nothing was removed: a host that does not answer may run a job "
                     "whose folder the others share"));
    return kExitHost;
  }
  const auto answers = AskAll<Removal>(plan, [&](auto channel, TimePoint deadline) {
    return Clean(std::move(channel), plan.ssh.remote_dir, *running, deadline);
  });
  bool all_answered = true;
  for (size_t slot = 0; slot < answers.size(); ++slot) {
    const std::string& host = plan.hosts[slot].name;
    const auto& [removal, error] = answers[slot];
    for (const std::string& path : removal.removed) fmt::print("{}: removed {}\n", host, path);
    for (const std::string& kept : removal.kept) fmt::print("{}: kept {}\n", host, kept);
    if (error) PrintError(*error);
    all_answered = all_answered && !error;
  }
  return all_answered ? kExitSuccess : kExitHost;
}

}  // namespace tfdist::cli
