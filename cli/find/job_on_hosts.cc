#include "cli/find/job_on_hosts.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/failures.h"
#include "cli/find/adopt_job.h"
#include "cli/find/find_job.h"
#include "cli/find/sites.h"
#include "cli/hosts/for_each_host.h"
#include "cli/job/job_record.h"
#include "cli/show/host_fold.h"
#include "cli/show/report.h"
#include "cli/show/slow_notice.h"
#include "cli/stream/print.h"
#include "job/layout.h"

namespace tfdist::cli {
namespace {

struct JobThere {
  bool runs = false;
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

std::string Listed(const std::vector<std::pair<std::string, JobThere>>& jobs, bool all) {
  std::string ids;
  for (const auto& [id, there] : jobs) ids += all || there.runs ? " " + id : "";
  return ids;
}

// What is looked for may be on a host that did not answer.
void FailIfSilent(const JobsThere& there, const std::string& what) {
  if (there.silent.empty()) return;
  const std::string hosts = FoldHosts(there.silent);
  throw Unreachable(Phase::kConnect,
                    fmt::format("{} is on no host that answered; {} did not", what, hosts),
                    fmt::format("the same again once {} answers", hosts));
}

std::pair<std::string, JobThere> Choose(const JobsThere& there, const JobPlace& place,
                                        const std::string& word, JobUse use) {
  std::vector<std::pair<std::string, JobThere>> all(there.jobs.begin(), there.jobs.end());
  if (all.empty()) {
    FailIfSilent(there, word.empty() ? "a job" : "job " + word);
    throw NoSuchJob(Phase::kUsage,
                    fmt::format("no job {}{}is on {}", word, word.empty() ? "" : " ", place.hosts),
                    fmt::format("tfdist list -H {} shows which run there", place.hosts));
  }
  std::ranges::sort(all, [](const auto& a, const auto& b) {
    return std::pair(a.second.runs, CreatedBy(a.first)) >
           std::pair(b.second.runs, CreatedBy(b.first));
  });
  if (use == JobUse::kChange && all.size() > 1) {
    throw AmbiguousJob(Phase::kUsage,
                       fmt::format("several jobs there are called {}:{}", word, Listed(all, true)),
                       "name one of them by its id");
  }
  if (all.size() > 1 && all[1].second.runs) {
    throw AmbiguousJob(Phase::kUsage, fmt::format("several jobs run there:{}", Listed(all, false)),
                       "name one of them by its id");
  }
  return all[0];
}

}  // namespace

std::string KnowJobOnHosts(const JobPlace& place, const std::string& word, JobUse use) {
  if (use == JobUse::kChange && word.empty()) {
    throw UsageError(Phase::kUsage, "no job is named, and those on the hosts may be others'",
                     fmt::format("tfdist list -H {} shows which run there", place.hosts));
  }
  Plan plan = PlanOfHosts(place.hosts, place.ssh_config, place.transport);
  const JobsThere all = LookOn(plan, word);
  const auto [id, there] = Choose(all, place, word, use);
  if (IsKnownHere(id)) return id;
  if (!there.first) {
    FailIfSilent(all, fmt::format("slot 0 of job {}, which knows all of it,", id));
    throw UsageError(Phase::kUsage,
                     fmt::format("the first host of job {}, which knows all of it, is none of {}",
                                 id, place.hosts),
                     "name all of its hosts");
  }
  std::swap(plan.hosts[0], plan.hosts[*there.first]);
  plan.name = NameOf(id);
  SaveRecord(AdoptJob(plan, id));
  Say("tfdist: job {} is known on this machine from now on; tfdist prune {} forgets it\n", id, id);
  return id;
}

void FindOnHosts(const JobPlace& place, std::string& word) {
  if (!place.hosts.empty()) word = KnowJobOnHosts(place, word, JobUse::kLook);
}

void FindOnHosts(const JobPlace& place, std::vector<std::string>& jobs, JobUse use) {
  if (place.hosts.empty()) return;
  if (jobs.empty()) jobs.emplace_back();
  for (std::string& word : jobs) word = KnowJobOnHosts(place, word, use);
}

void FindJobOfWords(const JobPlace& place, std::vector<std::string>& words, JobUse use) {
  if (place.hosts.empty()) return;
  const bool is_selector =
      words.empty() || words[0].starts_with('@') || words[0].find(':') != std::string::npos;
  if (is_selector) words.insert(words.begin(), "");
  words[0] = KnowJobOnHosts(place, words[0], use);
}

}  // namespace tfdist::cli
