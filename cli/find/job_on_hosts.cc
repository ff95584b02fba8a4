#include "cli/find/job_on_hosts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "base/failures.h"
#include "cli/find/adopt_job.h"
#include "cli/find/find_job.h"
#include "cli/find/sites.h"
#include "cli/hosts/for_each_host.h"
#include "cli/job/job_record.h"
#include "cli/show/report.h"
#include "cli/show/slow_notice.h"
#include "cli/stream/host_fold.h"
#include "cli/stream/print.h"
#include "job/layout.h"

namespace tfdist::cli {
namespace {

struct JobThere {
  bool runs = false;
  int64_t ended_ns = 0;         // of one that has ended just now
  std::optional<size_t> first;  // of the plan's hosts: the one with slot 0
};
struct JobsThere {
  std::map<std::string, JobThere> jobs;  // by id
  std::vector<std::string> silent;       // hosts that did not answer
};

std::string NameOf(const std::string& id) { return id.substr(0, id.rfind('-', id.rfind('-') - 1)); }

JobsThere LookOn(const Plan& plan, const std::string& word) {
  std::vector<std::vector<RemoteJob>> found(plan.hosts.size());
  const SlowNotice notice("looking for jobs there");
  const auto failures = ForEachHost(
      plan.hosts.size(), [&](size_t at) { found[at] = JobsOn(plan.hosts[at], plan.ssh, ""); });
  std::vector<Error> errors;
  JobsThere there;
  for (size_t at = 0; at < failures.size(); ++at) {
    if (!failures[at]) continue;
    errors.push_back(WithHost(*failures[at], plan.hosts[at].name));
    there.silent.push_back(plan.hosts[at].name);
  }
  PrintErrors(errors);
  for (size_t at = 0; at < found.size(); ++at) {
    for (const RemoteJob& job : found[at]) {
      if (!IsJobId(job.job) || (!word.empty() && job.job != word && NameOf(job.job) != word))
        continue;
      JobThere& found_job = there.jobs[job.job];
      found_job.runs = found_job.runs || job.running;
      if (job.slot == 0) found_job.first = at;
    }
  }
  return there;
}

Plan WithFirstHost(Plan plan, const std::string& id, size_t first) {
  std::swap(plan.hosts[0], plan.hosts[first]);
  plan.name = NameOf(id);
  return plan;
}

// An agent stays for a moment after its job's end, for those who follow the job.
void AskWhichHaveEnded(const Plan& plan, JobsThere& there) {
  std::vector<std::pair<const std::string*, JobThere*>> running;
  for (auto& [id, job] : there.jobs) {
    if (job.runs && job.first) running.emplace_back(&id, &job);
  }
  if (running.size() < 2) return;
  (void)ForEachHost(running.size(), [&](size_t at) {
    const auto [id, job] = running[at];
    const LastSeen seen = AdoptJob(WithFirstHost(plan, *id, *job->first), *id).last_seen;
    job->runs = !seen.is_over();
    job->ended_ns = seen.ended_ns;
  });
}

// What is looked for may be on a host that did not answer.
void FailIfSilent(const JobsThere& there, const std::string& what) {
  if (there.silent.empty()) return;
  const std::string hosts = FoldHosts(there.silent);
  throw Unreachable(Phase::kConnect,
                    fmt::format("{} is on no host that answered; {} did not", what, hosts),
                    fmt::format("the same again once {} answers", hosts));
}

// What it would end or remove by that name may not be what is meant: another one may run on a host that did not answer.
void FailIfAnotherMayBeMeant(const JobsThere& there, const JobsMeant& meant, Deed deed,
                             const std::string& word) {
  const bool purges = deed == Deed::kPurge || deed == Deed::kPurgeKept;
  const bool only_looks = deed == Deed::kLook;
  if (there.silent.empty() || IsJobId(word) || only_looks || (meant.running == 1 && !purges)) {
    return;
  }
  std::string ids;
  for (const auto& [id, job] : there.jobs) ids += " " + id;
  throw Unreachable(Phase::kConnect,
                    fmt::format("which job {} is meant is not known: {} did not answer", word,
                                FoldHosts(there.silent)),
                    fmt::format("name it by its id; on the hosts that answered:{}", ids));
}

struct Chosen {
  std::string id;
  JobThere there;
  JobsMeant meant;
};

std::string RunningOf(const JobsThere& there) {
  std::string ids;
  for (const auto& [id, job] : there.jobs) ids += job.runs ? " " + id : "";
  return ids;
}

void SayWhichIsMeant(const Chosen& chosen) {
  const size_t running = chosen.meant.running;
  if (running > 1) {
    Say("tfdist: of {} running jobs there this is the newest: {}\n", running, chosen.id);
  } else {
    Say("tfdist: of {} jobs there this one {}: {}\n", running + chosen.meant.finished,
        running == 1                 ? "runs"
        : chosen.there.ended_ns != 0 ? "ended last"
                                     : "is the newest",
        chosen.id);
  }
}

Chosen Choose(const JobsThere& there, const JobPlace& place, const std::string& word) {
  if (there.jobs.empty()) {
    FailIfSilent(there, word.empty() ? "a job" : "job " + word);
    throw NoSuchJob(
        Phase::kUsage,
        fmt::format("no job {}{}is on {} in the account that SSH logs in to; those of other "
                    "accounts cannot be looked into",
                    word, word.empty() ? "" : " ", place.hosts),
        fmt::format("tfdist list -H {} shows which run there, and whose they are; -H "
                    "USER@HOST logs in to another account",
                    place.hosts));
  }
  const auto [id, job] = *std::ranges::max_element(there.jobs, {}, [](const auto& one) {
    return std::tuple(one.second.runs, one.second.ended_ns, CreatedBy(one.first));
  });
  const auto running =
      std::ranges::count_if(there.jobs, [](const auto& one) { return one.second.runs; });
  return {id,
          job,
          {.named = !word.empty(),
           .running = static_cast<size_t>(running),
           .finished = there.jobs.size() - static_cast<size_t>(running)}};
}

JobRecord RecordOf(const Chosen& chosen, const Plan& plan, const JobsThere& all,
                   const JobPlace& place) {
  if (IsKnownHere(chosen.id)) return FindJob(chosen.id, Deed::kLook);
  if (!chosen.there.first) {
    FailIfSilent(all, fmt::format("slot 0 of job {}, which knows all of it,", chosen.id));
    throw UsageError(Phase::kUsage,
                     fmt::format("the first host of job {}, which knows all of it, is none of {}",
                                 chosen.id, place.hosts),
                     "name all of its hosts");
  }
  return AdoptJob(WithFirstHost(plan, chosen.id, *chosen.there.first), chosen.id);
}

}  // namespace

std::string KnowJobOnHosts(const JobPlace& place, const std::string& word, Deed deed) {
  const JobsMeant any = {.named = !word.empty(), .on_hosts = true};
  if (word.empty() && ConsentFor(deed, any) == Consent::kRefused) {
    throw UsageError(Phase::kUsage, "no job is named, and those on the hosts may be others'",
                     fmt::format("tfdist list -H {} shows which run there", place.hosts));
  }
  const Plan plan = PlanOfHosts(place.hosts, place.ssh_config, place.transport);
  JobsThere all = LookOn(plan, word);
  AskWhichHaveEnded(plan, all);
  const Chosen chosen = Choose(all, place, word);
  FailIfAnotherMayBeMeant(all, chosen.meant, deed, word);
  const Consent consent = ConsentFor(deed, chosen.meant);
  if (consent == Consent::kRefused) {
    throw AmbiguousJob(Phase::kUsage, fmt::format("several jobs run there:{}", RunningOf(all)),
                       "name one of them by its id");
  }
  const bool is_known = IsKnownHere(chosen.id);
  const JobRecord record = RecordOf(chosen, plan, all, place);
  if (consent == Consent::kAsked) {
    AskBeforePurge(record, chosen.meant);
  } else if (all.jobs.size() > 1) {
    SayWhichIsMeant(chosen);
  }
  if (!is_known) {
    SaveRecord(record);
    Say("tfdist: job {0} is known on this machine from now on; tfdist prune {0} forgets it\n",
        chosen.id);
  }
  return chosen.id;
}

void FindOnHosts(const JobPlace& place, std::string& word) {
  if (!place.hosts.empty()) word = KnowJobOnHosts(place, word, Deed::kLook);
}

void FindOnHosts(const JobPlace& place, std::vector<std::string>& jobs, Deed deed) {
  if (place.hosts.empty()) return;
  if (jobs.empty()) jobs.emplace_back();
  for (std::string& word : jobs) word = KnowJobOnHosts(place, word, deed);
}

void FindJobOfWords(const JobPlace& place, std::vector<std::string>& words, Deed deed) {
  if (place.hosts.empty()) return;
  const bool is_selector =
      words.empty() || words[0].starts_with('@') || words[0].find(':') != std::string::npos;
  if (is_selector) words.insert(words.begin(), "");
  words[0] = KnowJobOnHosts(place, words[0], deed);
}

}  // namespace tfdist::cli
