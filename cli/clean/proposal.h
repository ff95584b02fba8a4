// What of all that lies on hosts `clean` proposes to remove.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "cli/clean/survey_hosts.h"
#include "cli/plan/plan.h"

namespace tfdist::cli {

// What the user means.
struct CleanTerms {
  bool all_jobs = false;         // of any name
  bool purges = false;           // {keep} too, where no job of its name stays
  std::optional<uint64_t> keep;  // how many of the newest jobs stay
  std::chrono::milliseconds older_than{0};
};

// What there is on the hosts, and what of it is to go.
struct Proposal {
  HostsSurvey found;
  std::set<std::string> running;  // ids, on any host: homes may be shared, and a folder with them
  // Those of them that are over.
  std::set<std::string> waiting;
  // Another host may run them, in a folder that it shares with one of these.
  std::set<std::string> in_doubt;
  // Those of `waiting` that are meant: once their agents have left they can be removed.
  std::set<std::string> leaving;
  std::set<std::string> jobs;  // ids that are to be removed
  std::map<std::string, std::string>
      of_other_projects;  // ids of the plan's name that stay -> the file that started them
  // Ids of which this machine has no record: another machine of the account started them, or `prune` forgot them.
  std::set<std::string> unknown;
  bool purges = false;            // {keep} goes, where no job of its name stays
  bool spares_kept = false;       // but by --keep none goes
  int64_t purged_from_age_s = 0;  // and its newest file is as old as that
  bool has_caches = false;        // to be removed
  bool caches_stay = false;       // for jobs that stay
  [[nodiscard]] bool something_may_run() const { return !running.empty() || !in_doubt.empty(); }
};

// Asks the hosts of `plan`, which has all slots, each machine once.
Proposal Propose(const Plan& plan, const CleanTerms& terms);

// Of such a name no job stays, on any host: homes may be shared.
bool IsLeftBehind(const Proposal& proposal, const std::string& name);

// Whether it stays only because not all of it could be looked at: a newer file may be among the rest.
bool IsOfUnknownAge(const Proposal& proposal, const KeptOfName& kept);

// Names whose {keep} is to go, on all hosts.
std::set<std::string> KeptToGo(const Proposal& proposal);

// Some job to be removed, or a set-up among the caches, has files that tasks wrote.
bool HasTaskFiles(const Proposal& proposal);

// How many of the jobs to be removed this machine does not know.
size_t CountUnknown(const Proposal& proposal);

// Nothing is to be removed.
bool IsEmpty(const Proposal& proposal);

// When the job began, as its id has it; 0: it has not.
int64_t BeganNs(const std::string& job);

}  // namespace tfdist::cli
