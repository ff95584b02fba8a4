#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <optional>
#include <set>

#include "base/failures.h"
#include "cli/commands/commands.h"
#include "cli/commands/exit_codes.h"
#include "cli/commands/for_each_host.h"
#include "cli/commands/report.h"
#include "cli/job/connector.h"
#include "cli/link/bootstrap.h"
#include "cli/stream/print.h"

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
    if (failures[slot]) answers[slot].error = WithHost(*failures[slot], plan.hosts[slot].name);
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

// What there is on the hosts, and what of it is to go.
struct Proposal {
  std::vector<HostSurvey> hosts;  // as in the plan
  std::set<std::string> running;  // ids, on any host: homes may be shared, and a folder with them
  std::set<std::string> jobs;     // ids that are to be removed
  bool has_task_files = false;    // of some job to be removed
  bool has_caches = false;
  [[nodiscard]] bool empty() const { return jobs.empty() && !has_caches; }
};

// nullopt when a host did not answer, which has been said.
std::optional<Proposal> Propose(const Plan& plan, bool all_jobs) {
  auto answers = AskAll<HostSurvey>(plan, [&](auto channel, TimePoint deadline) {
    return Survey(std::move(channel), plan.ssh.remote_dir, deadline);
  });
  Proposal proposal;
  bool all_answered = true;
  for (auto& host : answers) {
    if (host.error) PrintError(*host.error);
    all_answered = all_answered && !host.error;
    for (const SlotOnHost& slot : host.answer.slots) {
      if (slot.job.running) proposal.running.insert(slot.job.job);
    }
    proposal.hosts.push_back(std::move(host.answer));
  }
  if (!all_answered) return std::nullopt;
  for (const HostSurvey& host : proposal.hosts) {
    for (const SlotOnHost& slot : host.slots) {
      const bool meant = all_jobs || IsJobIdOf(slot.job.job, plan.name);
      if (!meant || proposal.running.contains(slot.job.job)) continue;
      proposal.jobs.insert(slot.job.job);
      proposal.has_task_files = proposal.has_task_files || slot.has_task_files;
    }
    proposal.has_caches = proposal.has_caches || host.caches_kib > 0;
  }
  proposal.has_caches = proposal.has_caches && proposal.running.empty();
  return proposal;
}

std::string Size(uint64_t kib) {
  if (kib < 10 * 1024) return fmt::format("{} KiB", kib);
  if (kib < 10 * 1024 * 1024) return fmt::format("{} MiB", kib >> 10);
  return fmt::format("{} GiB", kib >> 20);
}

void PrintRow(const std::string& host, const std::string& what, uint64_t kib,
              std::string_view remark) {
  Print("{:<20} {:>10}  {}{}\n", host, Size(kib), what, remark);
}

void PrintProposal(const Plan& plan, const Proposal& proposal) {
  for (size_t at = 0; at < proposal.hosts.size(); ++at) {
    const std::string& host = plan.hosts[at].name;
    for (const SlotOnHost& slot : proposal.hosts[at].slots) {
      const std::string what = fmt::format("job {}, slot {}", slot.job.job, slot.job.slot);
      if (proposal.running.contains(slot.job.job)) {
        PrintRow(host, what, slot.size_kib, ": stays, it runs");
      } else if (proposal.jobs.contains(slot.job.job)) {
        PrintRow(host, what, slot.size_kib, slot.has_task_files ? ": HAS FILES OF TASKS" : "");
      }
    }
    const uint64_t caches_kib = proposal.hosts[at].caches_kib;
    if (caches_kib > 0) {
      PrintRow(host, "agents and caches", caches_kib,
               proposal.has_caches ? "" : ": stay, a job runs");
    }
  }
}

// Whether the user says so: by --yes, or now.
bool IsConfirmed(const CleanArguments& arguments, const Proposal& proposal) {
  if (arguments.yes) return true;
  if (isatty(STDIN_FILENO) == 0 || isatty(STDERR_FILENO) == 0) {
    throw UsageError(Phase::kUsage, "nothing was removed: there is no terminal to ask on",
                     "tfdist clean --yes removes what is listed; --dry-run lists only");
  }
  Say("tfdist: remove these{}? [y/N] ", proposal.has_task_files ? ", files of tasks too" : "");
  std::string answer;
  std::getline(std::cin, answer);
  return answer == "y" || answer == "Y" || answer == "yes";
}

bool RemoveAll(const Plan& plan, const Proposal& proposal) {
  const std::vector<std::string> jobs(proposal.jobs.begin(), proposal.jobs.end());
  const auto answers = AskAll<Removal>(plan, [&](auto channel, TimePoint deadline) {
    return Clean(std::move(channel), plan.ssh.remote_dir, jobs, !proposal.running.empty(),
                 deadline);
  });
  bool all_answered = true;
  for (size_t slot = 0; slot < answers.size(); ++slot) {
    const std::string& host = plan.hosts[slot].name;
    const auto& [removal, error] = answers[slot];
    for (const std::string& path : removal.removed) Print("{}: removed {}\n", host, path);
    for (const std::string& kept : removal.kept) Print("{}: kept {}\n", host, kept);
    if (error) PrintError(*error);
    all_answered = all_answered && !error;
  }
  return all_answered;
}

}  // namespace

int CleanCommand(const CleanArguments& arguments) {
  const Plan plan = OncePerMachine(LoadPlan(arguments.file));
  const auto proposal = Propose(plan, arguments.all);
  if (!proposal) {
    PrintError(Error(Phase::kDown,
                     "nothing was removed: a host that does not answer may run a job "
                     "whose folder the others share"));
    return kExitHost;
  }
  PrintProposal(plan, *proposal);
  if (proposal->empty()) {
    Print("nothing to remove\n");
    return kExitSuccess;
  }
  if (arguments.dry_run) return kExitSuccess;
  fflush(stdout);
  if (!IsConfirmed(arguments, *proposal)) {
    Say("tfdist: nothing was removed\n");
    return kExitSuccess;
  }
  return RemoveAll(plan, *proposal) ? kExitSuccess : kExitHost;
}

}  // namespace tfdist::cli
