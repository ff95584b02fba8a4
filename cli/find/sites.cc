#include "cli/find/sites.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "base/failures.h"
#include "cli/cluster_file/command_line_job.h"
#include "cli/find/begun.h"
#include "cli/find/find_job.h"
#include "cli/find/job_view.h"

namespace tfdist::cli {
namespace {

// Words behind the job or the file.
struct Selectors {
  std::vector<std::string> tasks;
  std::vector<std::string> hosts;
};

bool IsHost(const std::vector<HostPlan>& hosts, const std::string& name) {
  return std::ranges::any_of(hosts, [&](const HostPlan& host) { return host.name == name; });
}

Selectors Sort(const std::vector<HostPlan>& hosts, const std::vector<std::string>& words) {
  Selectors selectors;
  for (const std::string& word : Expanded(words)) {
    if (word.starts_with('@')) {
      selectors.hosts.push_back(word.substr(1));
    } else {
      (IsHost(hosts, word) ? selectors.hosts : selectors.tasks).push_back(word);
    }
  }
  return selectors;
}

// Those of `names`; all when there are none. A host with several slots counts once.
std::vector<Site> HostSites(const std::vector<HostPlan>& hosts,
                            const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (IsHost(hosts, name)) continue;
    throw UsageError(Phase::kUsage, fmt::format("there is no host {}", name));
  }
  std::vector<Site> sites;
  std::set<std::string> seen;
  for (const HostPlan& host : hosts) {
    const bool is_wanted = names.empty() || std::ranges::find(names, host.name) != names.end();
    if (!is_wanted || !seen.insert(host.name).second) continue;
    Site site;
    site.host = host;
    sites.push_back(std::move(site));
  }
  return sites;
}

void RefuseTasksOfEnded(const JobRecord& record) {
  if (!record.last_seen.is_over()) return;
  throw NoSuchJob(Phase::kUsage,
                  fmt::format("job {} is over ({}): none of its tasks runs", record.id,
                              StateWithWhy(record.last_seen)),
                  fmt::format("tfdist logs {0} shows what they wrote, tfdist pull {0} brings their "
                              "files home, tfdist exec {0} @{1} -- COMMAND looks at a host",
                              record.id, record.hosts[0].name));
}

enum class Tasks { kAll, kThoseThatRun };

std::vector<Site> TaskSites(const JobRecord& record, const Selectors& selectors, Tasks wanted) {
  const std::vector<std::string> tasks = SelectTasks(record, selectors.tasks, selectors.hosts);
  if (tasks.empty()) {
    throw UsageError(Phase::kUsage, fmt::format("job {} has no such task on that host", record.id));
  }
  if (wanted == Tasks::kThoseThatRun) RefuseTasksOfEnded(record);
  const std::vector<int> seats = SeatsOf(record);
  std::vector<Site> sites;
  for (const JobRecord::Task& task : record.tasks) {
    if (std::ranges::find(tasks, task.id) == tasks.end()) continue;
    Site site;
    site.slot = seats.at(static_cast<size_t>(task.slot));
    site.host = record.hosts.at(static_cast<size_t>(site.slot));
    site.task = task.id;
    site.job = record.id;
    site.base = BaseOf(record, site.slot);
    site.known = KnownBaseOf(record, site.slot);
    sites.push_back(std::move(site));
  }
  return sites;
}

void CheckTasks(const Plan& plan, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    const bool is_known = std::ranges::any_of(plan.tasks, [&](const TaskOnHost& task) {
      return task.id.type == word || ToString(task.id) == word;
    });
    if (is_known) continue;
    throw UsageError(Phase::kUsage,
                     fmt::format("{} has no task or host {}", plan.file.filename().string(), word));
  }
}

Sites SitesOfJob(const std::vector<std::string>& words, Tasks wanted) {
  const auto [record, rest] = FindJobAndWords(words, Deed::kEnter);
  const Selectors selectors = Sort(record.hosts, rest);
  if (selectors.tasks.empty()) return {HostSites(record.hosts, selectors.hosts), record.ssh};
  if (WhyNotBegun(record)) throw NothingLeftOf("the folder of its tasks", record);
  return {TaskSites(record, selectors, wanted), record.ssh};
}

}  // namespace

std::vector<int> SeatsOf(const JobRecord& record) {
  const bool has_spare =
      std::ranges::any_of(record.hosts, [](const HostPlan& host) { return host.spare; });
  std::vector<int> seats;
  for (size_t slot = 0; slot < record.hosts.size(); ++slot) seats.push_back(static_cast<int>(slot));
  if (!has_spare) return seats;
  const std::vector<int> now = LookAt(record).state.seats;
  const bool is_sound = now.size() == seats.size() && std::ranges::all_of(now, [&](int slot) {
                          return slot >= 0 && static_cast<size_t>(slot) < seats.size();
                        });
  return is_sound ? now : seats;
}

namespace {

Sites Find(const std::vector<std::string>& words, Tasks wanted) {
  if (words.empty() || !LooksLikeAFile(words[0])) return SitesOfJob(words, wanted);
  const Plan plan = LoadPlan(std::filesystem::path(words[0]));
  const Selectors selectors = Sort(plan.hosts, {words.begin() + 1, words.end()});
  if (selectors.tasks.empty()) return {HostSites(plan.hosts, selectors.hosts), plan.ssh};
  try {
    return SitesOfJob(words, wanted);  // it may have other tasks than the file has now
  } catch (const NoSuchJob&) {
    CheckTasks(plan, selectors.tasks);
    throw;
  } catch (const UsageError&) {  // nor has the job
    CheckTasks(plan, selectors.tasks);
    throw;
  }
}

}  // namespace

Sites FindSites(const std::vector<std::string>& words) { return Find(words, Tasks::kAll); }

Sites FindRunningSites(const std::vector<std::string>& words) {
  return Find(words, Tasks::kThoseThatRun);
}

Sites SitesOfFile(const std::string& file) {
  const Plan plan = LoadPlan(std::filesystem::path(file));
  return {HostSites(plan.hosts, {}), plan.ssh};
}

Plan PlanOfHosts(const std::string& list, const std::string& ssh_config,
                 const std::string& transport) {
  CommandLineJob job;
  job.hosts = {list};
  job.ssh_config = ssh_config;
  job.transport = transport;
  job.command = {"true"};
  job.apart = true;
  Plan plan = PlanCommandLine(job);
  plan.name.clear();
  return plan;
}

Sites SitesOfHosts(const std::string& list, const std::string& ssh_config,
                   const std::string& transport) {
  const Plan plan = PlanOfHosts(list, ssh_config, transport);
  return {HostSites(plan.hosts, {}), plan.ssh};
}

}  // namespace tfdist::cli
