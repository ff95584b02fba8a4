#include "cli/clean/proposal.h"

#include <algorithm>
#include <ctime>
#include <functional>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "cli/find/find_job.h"
#include "cli/job/job_record.h"

namespace tfdist::cli {
namespace {

Plan OncePerMachine(Plan plan) {
  std::set<Machine> seen;
  std::erase_if(plan.hosts,
                [&](const HostPlan& host) { return !seen.insert(MachineOf(host)).second; });
  return plan;
}

// Whose a slot's folder is: by the job's record, where this machine has one, else by the cluster file.
class Owners {
 public:
  // `plan` is borrowed, with all slots.
  explicit Owners(const Plan& plan) : plan_(plan) {
    for (JobRecord& record : LoadRecords()) {
      if (record.last_seen.is_over() || HasNeverBegun(record)) over_.insert(record.id);
      if (record.name == plan.name && IsOfAnotherProject(record, plan))
        of_other_projects_[record.id] = ProjectOf(record);
      hosts_[record.id] = std::move(record.hosts);
    }
  }

  // As this machine's record has it.
  [[nodiscard]] bool IsOver(const std::string& job) const { return over_.contains(job); }
  [[nodiscard]] bool Knows(const std::string& job) const { return hosts_.contains(job); }

  [[nodiscard]] const auto& of_other_projects() const { return of_other_projects_; }

  [[nodiscard]] std::optional<Machine> Of(const RemoteJob& slot) const {
    const auto known = hosts_.find(slot.job);
    if (known == hosts_.end() && !IsJobIdOf(slot.job, plan_.name)) return std::nullopt;
    const auto& hosts = known == hosts_.end() ? plan_.hosts : known->second;
    const auto at = static_cast<size_t>(slot.slot);
    return at < hosts.size() ? std::optional(MachineOf(hosts[at])) : std::nullopt;
  }

 private:
  const Plan& plan_;
  std::map<std::string, std::vector<HostPlan>> hosts_;
  std::set<std::string> over_;
  std::map<std::string, std::string> of_other_projects_;
};

// Where not all files were looked at, a newer one may be among them.
bool IsOldEnough(const Proposal& proposal, const KeptOfName& kept) {
  if (proposal.purged_from_age_s == 0) return true;
  return kept.files.all && kept.files.age_s >= proposal.purged_from_age_s;
}

// Hosts share a folder where one has the folders of the other's slots. So a host that was not asked, or has not shown
// all, may run what lies here, unless the slot's own host is known to run nothing.
bool IsInDoubt(const Proposal& proposal, const Plan& plan, const Owners& owners,
               const SlotOnHost& slot) {
  const auto owner = owners.Of(slot.job);
  if (owner && proposal.found.seen.contains(*owner)) return false;
  // Hosts that the user has taken out of this file, and jobs of which this machine knows nothing.
  const bool is_own = IsJobIdOf(slot.job.job, plan.name);
  if (!owner || is_own) return slot.is_leased || !proposal.found.silent.empty();
  return true;
}

Proposal ProposeAll(const Plan& plan, const Owners& owners, bool all_jobs) {
  Proposal proposal;
  proposal.found = SurveyHosts(plan);
  if (!all_jobs) proposal.of_other_projects = owners.of_other_projects();
  for (const HostSurvey& host : proposal.found.hosts) {
    for (const SlotOnHost& slot : host.slots) {
      if (slot.job.running) proposal.running.insert(slot.job.job);
      if (!owners.Knows(slot.job.job)) proposal.unknown.insert(slot.job.job);
      if (slot.job.running && owners.IsOver(slot.job.job)) proposal.waiting.insert(slot.job.job);
      if (IsInDoubt(proposal, plan, owners, slot)) proposal.in_doubt.insert(slot.job.job);
    }
  }
  for (const HostSurvey& host : proposal.found.hosts) {
    for (const SlotOnHost& slot : host.slots) {
      const std::string& job = slot.job.job;
      const bool meant =
          (all_jobs || IsJobIdOf(job, plan.name)) && !proposal.of_other_projects.contains(job);
      if (meant && proposal.waiting.contains(job)) proposal.leaving.insert(job);
      if (!meant || proposal.running.contains(job) || proposal.in_doubt.contains(job)) continue;
      proposal.jobs.insert(job);
    }
    proposal.has_caches = proposal.has_caches || host.caches_kib > 0;
  }
  for (HostSurvey& host : proposal.found.hosts) {
    std::erase_if(host.kept, [&](const auto& kept) { return !all_jobs && kept.name != plan.name; });
  }
  proposal.caches_stay = proposal.something_may_run();
  proposal.has_caches = proposal.has_caches && !proposal.caches_stay;
  return proposal;
}

// Of the jobs to be removed, those that stay by --keep and --older-than.
void LeaveOut(const CleanTerms& terms, Proposal& proposal) {
  if (!terms.keep && terms.older_than == terms.older_than.zero()) return;
  proposal.has_caches = false;
  proposal.caches_stay = true;
  std::vector<std::string> jobs(proposal.jobs.begin(), proposal.jobs.end());
  std::ranges::sort(jobs, std::greater(),
                    [](const std::string& job) { return std::pair(BeganNs(job), job); });
  const int64_t latest_ns =
      WallClockNanoseconds() - std::chrono::nanoseconds(terms.older_than).count();
  for (size_t at = 0; at < jobs.size(); ++at) {
    if (at < terms.keep.value_or(0) || BeganNs(jobs[at]) > latest_ns) {
      proposal.jobs.erase(jobs[at]);
    }
  }
  std::erase_if(proposal.leaving, [&](const std::string& job) {
    return terms.keep.value_or(0) > 0 || BeganNs(job) > latest_ns;
  });
  proposal.spares_kept = terms.keep.has_value();
  proposal.purged_from_age_s = std::chrono::ceil<std::chrono::seconds>(terms.older_than).count();
}

}  // namespace

bool IsLeftBehind(const Proposal& proposal, const std::string& name) {
  return std::ranges::none_of(proposal.found.hosts, [&](const HostSurvey& host) {
    return std::ranges::any_of(host.slots, [&](const SlotOnHost& slot) {
      return IsJobIdOf(slot.job.job, name) && !proposal.jobs.contains(slot.job.job);
    });
  });
}

bool IsOfUnknownAge(const Proposal& proposal, const KeptOfName& kept) {
  return proposal.purges && !proposal.spares_kept && IsLeftBehind(proposal, kept.name) &&
         proposal.purged_from_age_s > 0 && !kept.files.all &&
         (kept.files.files == 0 || kept.files.age_s >= proposal.purged_from_age_s);
}

std::set<std::string> KeptToGo(const Proposal& proposal) {
  std::set<std::string> names;
  std::set<std::string> newer;
  if (!proposal.purges || proposal.spares_kept) return names;
  for (const HostSurvey& host : proposal.found.hosts) {
    for (const KeptOfName& kept : host.kept) {
      if (!IsOldEnough(proposal, kept)) newer.insert(kept.name);
      if (IsLeftBehind(proposal, kept.name)) names.insert(kept.name);
    }
  }
  for (const std::string& name : newer) names.erase(name);
  return names;
}

bool HasTaskFiles(const Proposal& proposal) {
  return std::ranges::any_of(proposal.found.hosts, [&](const HostSurvey& host) {
    if (proposal.has_caches && !host.task_file_in_caches.empty()) return true;
    return std::ranges::any_of(host.slots, [&](const SlotOnHost& slot) {
      return slot.has_task_files && proposal.jobs.contains(slot.job.job);
    });
  });
}

size_t CountUnknown(const Proposal& proposal) {
  return static_cast<size_t>(std::ranges::count_if(
      proposal.jobs, [&](const std::string& job) { return proposal.unknown.contains(job); }));
}

bool IsEmpty(const Proposal& proposal) {
  return proposal.jobs.empty() && !proposal.has_caches && KeptToGo(proposal).empty();
}

int64_t BeganNs(const std::string& job) {
  constexpr size_t kTail = std::string_view("20261125T090159Z-06e68b").size();
  std::tm time{};
  const bool has_time = job.size() > kTail && strptime(job.c_str() + job.size() - kTail,
                                                       "%Y%m%dT%H%M%SZ", &time) != nullptr;
  return has_time ? static_cast<int64_t>(timegm(&time)) * 1'000'000'000 : 0;
}

Proposal Propose(const Plan& plan, const CleanTerms& terms) {
  Proposal proposal = ProposeAll(OncePerMachine(plan), Owners(plan), terms.all_jobs);
  proposal.purges = terms.purges;
  LeaveOut(terms, proposal);
  return proposal;
}

}  // namespace tfdist::cli
