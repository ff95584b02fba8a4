// `tfdist clean [FILE]`: lists what nobody needs on hosts any more, and removes it once that is confirmed.

#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/failures.h"
#include "cli/clean/ask_all.h"
#include "cli/clean/proposal.h"
#include "cli/clean/proposal_text.h"
#include "cli/cluster_file/quantity.h"
#include "cli/commands/commands.h"
#include "cli/exit_codes.h"
#include "cli/find/sites.h"
#include "cli/job/job_record.h"
#include "cli/plan/host_count.h"
#include "cli/show/consent.h"
#include "cli/show/print_json.h"
#include "cli/show/report.h"
#include "cli/show/slow_notice.h"
#include "cli/stream/end_at_interrupt.h"
#include "cli/stream/print.h"
#include "job/layout.h"

namespace tfdist::cli {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

constexpr auto kLeaveLimit = 10s;

std::chrono::milliseconds OlderThan(const CleanArguments& arguments) {
  if (arguments.older_than.empty()) return 0ms;
  const auto milliseconds = ParseDurationMs(arguments.older_than);
  if (milliseconds && *milliseconds > 0) return std::chrono::milliseconds(*milliseconds);
  throw UsageError(Phase::kUsage,
                   fmt::format("--older-than: expected a time like 12h (units: {}), got {}",
                               DurationUnits(), arguments.older_than));
}

// Whether the user says so: by --yes, or now.
bool MayRemove(const CleanArguments& arguments, const Proposal& proposal) {
  const JobsMeant meant{
      .named = true, .running = proposal.running.size(), .finished = proposal.jobs.size()};
  if (arguments.yes || ConsentFor(Deed::kClean, meant) == Consent::kGiven) return true;
  if (arguments.json || !HasTerminal()) {
    throw UsageError(Phase::kUsage, "nothing was removed: there is no terminal to ask on",
                     "the same with --yes removes what is listed; --dry-run lists only");
  }
  const size_t unknown = CountUnknown(proposal);
  const std::string of_others =
      unknown == 0 ? "" : fmt::format(", {} of another machine too", Counted(unknown, "job"));
  return IsConfirmed(fmt::format(
      "remove these{}{}{}?", of_others, HasTaskFiles(proposal) ? ", files of tasks too" : "",
      KeptToGo(proposal).empty() ? "" : ", what jobs keep for the next one too"));
}

// Else `prune` would look for these folders, and take one that it does not find for one that is out of sight.
void NoteRemoved(const std::set<std::string>& folders) {
  for (JobRecord& record : LoadRecords()) {
    bool has_changed = false;
    for (size_t slot = 0; slot < record.bases.size(); ++slot) {
      std::string& base = record.bases[slot];
      const std::string path = layout::SlotPath(record.id, static_cast<int>(slot));
      if (!folders.contains(fmt::format("{}/{}/{}", base, layout::kJobs, path))) continue;
      base.clear();
      has_changed = true;
    }
    if (has_changed) TrySaveRecord(record);
  }
}

// What went, and what was to go and did not.
struct Removals {
  json removed = json::array();
  json in_use = json::array();
  json kept = json::array();
  std::vector<Error> errors;

  [[nodiscard]] std::string Words() const {
    return fmt::format("{} removed on the hosts",
                       removed.empty()       ? "nothing was"
                       : removed.size() == 1 ? "one folder was"
                                             : fmt::format("{} folders were", removed.size()));
  }
};

Removals RemoveAll(const Plan& plan, const Proposal& proposal) {
  const std::vector<std::string> jobs(proposal.jobs.begin(), proposal.jobs.end());
  const std::set<std::string> to_go = KeptToGo(proposal);
  const std::vector<std::string> names(to_go.begin(), to_go.end());
  const EndAtInterrupt ends([] {
    return "the hosts may have removed some of it, or all; the same command lists what is left";
  });
  const auto answers = AskAll<Removal>(proposal.found.answering, plan.ssh, [&](const House& house) {
    return Clean(house, jobs, proposal.caches_stay, names);
  });
  Removals all;
  std::set<std::string> removed;
  for (size_t at = 0; at < answers.size(); ++at) {
    const std::string& host = proposal.found.answering[at].name;
    const auto& [removal, error] = answers[at];
    removed.insert(removal.removed.begin(), removal.removed.end());
    for (const std::string& path : removal.removed) {
      all.removed.push_back({{"host", host}, {"folder", path}});
    }
    for (const std::string& used : removal.in_use) {
      all.in_use.push_back({{"host", host}, {"why", used}});
    }
    for (const protocol::KeptPath& kept : removal.kept) {
      all.kept.push_back({{"host", host}, {"why", kept.why}});
      all.errors.push_back(NotRemoved(Phase::kFiles, kept).WithHost(host));
    }
    if (error) all.errors.push_back(*error);
  }
  NoteRemoved(removed);
  return all;
}

void PrintRemovals(const Removals& all) {
  PrintDone(all.Words(), [&all] {
    for (const json& gone : all.removed) {
      Print("{}: removed {}\n", gone["host"].get<std::string>(), gone["folder"].get<std::string>());
    }
    for (const json& used : all.in_use) {
      Print("{}: kept {}\n", used["host"].get<std::string>(), used["why"].get<std::string>());
    }
  });
}

// False: something that was to go is there still, or may be.
bool CleanAsJson(const CleanArguments& arguments, const Plan& plan, const Proposal& proposal) {
  Removals all;
  if (!IsEmpty(proposal) && !arguments.dry_run && MayRemove(arguments, proposal)) {
    all = RemoveAll(plan, proposal);
  }
  PrintErrors(all.errors);
  PrintDone(all.Words(), [&] {
    PrintJson({{"items", ItemsJson(proposal)},
               {"removed", all.removed},
               {"kept", all.kept},
               {"in_use", all.in_use}});
  });
  return all.errors.empty();
}

// As CleanAsJson.
bool CleanAnswering(const CleanArguments& arguments, const Plan& plan, const Proposal& proposal) {
  if (arguments.json) return CleanAsJson(arguments, plan, proposal);
  const bool is_empty = IsEmpty(proposal);
  // What cannot be listed is not removed.
  PrintDone(Removals().Words(), [&] {
    PrintProposal(proposal);
    if (is_empty) Print("nothing to remove\n");
  });
  if (is_empty || arguments.dry_run) return true;
  if (MayRemove(arguments, proposal)) {
    const Removals all = RemoveAll(plan, proposal);
    PrintErrors(all.errors);
    PrintRemovals(all);
    return all.errors.empty();
  }
  Say("tfdist: nothing was removed\n");
  return true;
}

// Agents of finished jobs leave soon, but for those that wait for a lost host.
Proposal ProposeOnceAgentsHaveLeft(const Plan& plan, const CleanTerms& terms) {
  const TimePoint deadline = SystemClock().Now() + kLeaveLimit;
  const SlowNotice notice("waiting for the hosts");
  while (true) {
    Proposal proposal = Propose(plan, terms);
    const bool has_to_wait = !proposal.leaving.empty() && proposal.found.silent.empty();
    if (!has_to_wait || SystemClock().Now() >= deadline) return proposal;
    std::this_thread::sleep_for(500ms);
  }
}

// Prints what was meant and not proposed. True: there is something.
bool SayWhatCouldNotBeProposed(const Proposal& proposal) {
  for (const std::string& job : proposal.leaving) {
    PrintError(Error(Phase::kFiles,
                     fmt::format("job {} stays: it is over, but an agent of it is there still, for "
                                 "a follower or a lost host",
                                 job),
                     fmt::format("the same again later; tfdist down {} ends the agent", job)));
  }
  bool one_is_of_unknown_age = false;
  for (size_t at = 0; at < proposal.found.hosts.size(); ++at) {
    for (const KeptOfName& kept : proposal.found.hosts[at].kept) {
      if (!IsOfUnknownAge(proposal, kept)) continue;
      one_is_of_unknown_age = true;
      PrintError(Error(Phase::kFiles,
                       fmt::format("kept {}: not all of it could be looked at, and a newer file "
                                   "may be in the rest",
                                   kept.folder),
                       "look there; without --older-than it goes")
                     .WithHost(proposal.found.answering[at].name));
    }
  }
  return one_is_of_unknown_age || !proposal.leaving.empty();
}

Plan PlanToClean(const CleanArguments& arguments) {
  if (!arguments.hosts.empty()) {
    return PlanOfHosts(arguments.hosts, arguments.ssh_config, arguments.transport);
  }
  const std::string file = FindClusterFile(arguments.file);
  if (!file.empty()) return LoadPlan(file);
  throw UsageError(Phase::kUsage, "clean needs a cluster file, or hosts",
                   "tfdist clean FILE, or tfdist clean -H HOST,...");
}

CleanTerms TermsOf(const CleanArguments& arguments) {
  return {.all_jobs = arguments.all || !arguments.hosts.empty(),
          .purges = arguments.purge,
          .keep = arguments.keep,
          .older_than = OlderThan(arguments)};
}

}  // namespace

int CleanCommand(const CleanArguments& arguments) {
  const CleanTerms terms = TermsOf(arguments);
  const Plan plan = PlanToClean(arguments);
  const Proposal proposal =
      arguments.dry_run ? Propose(plan, terms) : ProposeOnceAgentsHaveLeft(plan, terms);
  const bool nothing_to_say = proposal.found.answering.empty() && !arguments.json;
  const bool all_went = nothing_to_say || CleanAnswering(arguments, plan, proposal);
  const bool one_stays = !arguments.dry_run && SayWhatCouldNotBeProposed(proposal);
  if (proposal.found.silent.empty()) return all_went && !one_stays ? kExitSuccess : kExitHost;
  if (proposal.found.unanswered > 0) {
    PrintError(
        Error(Phase::kFiles,
              fmt::format("{} could not be asked: what lies there stays",
                          CountedOf(proposal.found.unanswered, CountHosts(plan.hosts), "host")),
              "the same again once they can be reached; or without them, if they never will be"));
  }
  return kExitHost;
}

}  // namespace tfdist::cli
