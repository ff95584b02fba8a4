#include "cli/commands/find_job.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/deploy/connector.h"
#include "cli/link/bootstrap.h"
#include "cli/plan/describe.h"

namespace tfdist::cli {
namespace {

using namespace std::chrono_literals;

constexpr auto kLookLimit = 30s;

std::optional<JobRecord> NewestWhere(auto matches) {
  for (JobRecord& record : LoadRecords()) {
    if (matches(record)) return std::move(record);
  }
  return std::nullopt;
}

// Where tfdist's folder is on each host that has this job.
void LearnBases(JobRecord& record) {
  const TimePoint deadline = SystemClock().Now() + kLookLimit;
  for (size_t slot = 0; slot < record.hosts.size(); ++slot) {
    const auto transport = MakeTransport(record.hosts[slot], record.ssh);
    for (const RemoteJob& found :
         FindJobs(transport->OpenShell(deadline), record.ssh.remote_dir, record.name, deadline)) {
      if (found.job == record.id) record.bases[slot] = found.base;
    }
  }
}

std::optional<JobRecord> FindOnHosts(const Plan& plan) {
  const TimePoint deadline = SystemClock().Now() + kLookLimit;
  const auto transport = MakeTransport(plan.hosts[0], plan.ssh);
  const auto found =
      FindJobs(transport->OpenShell(deadline), plan.ssh.remote_dir, plan.name, deadline);
  if (found.empty()) return std::nullopt;
  return AdoptJob(plan, found.front().job);
}

bool LooksLikeAFile(const std::string& job) {
  return job.find('/') != std::string::npos || job.ends_with(".toml");
}

JobRecord FindByFile(const std::string& job) {
  const Plan plan = LoadPlan(job);
  if (auto record = NewestWhere([&](const JobRecord& r) { return r.name == plan.name; })) {
    return *record;
  }
  if (auto record = FindOnHosts(plan)) return *record;
  throw NoSuchJob(Phase::kUsage, fmt::format("no job {} of {} is known here, nor on {}", plan.name,
                                             job, plan.hosts[0].name));
}

}  // namespace

JobRecord AdoptJob(const Plan& plan, const std::string& id) {
  JobRecord record = MakeRecord(plan, id, DescribeJob(plan, id).plan_sha256);
  LearnBases(record);
  return record;
}

JobRecord FindJob(const std::string& job) {
  if (LooksLikeAFile(job)) return FindByFile(job);
  const auto matches = [&](const JobRecord& r) {
    return job.empty() || r.id == job || r.name == job;
  };
  if (auto record = NewestWhere(matches)) return *record;
  throw NoSuchJob(Phase::kUsage,
                  job.empty() ? "no job is known on this machine"
                              : fmt::format("no job {} is known on this machine", job),
                  "tfdist list shows those that are; a cluster file finds its job on its hosts");
}

std::vector<std::string> SelectTasks(const JobRecord& record,
                                     const std::vector<std::string>& wanted) {
  std::vector<std::string> selected;
  const auto is_wanted = [&](const std::string& id) {
    return wanted.empty() || std::any_of(wanted.begin(), wanted.end(), [&](const std::string& w) {
             return id == w || id.substr(0, id.find(':')) == w;
           });
  };
  for (const auto& task : record.tasks) {
    if (is_wanted(task.id)) selected.push_back(task.id);
  }
  for (const std::string& name : wanted) {
    const bool known = std::any_of(selected.begin(), selected.end(), [&](const std::string& id) {
      return id == name || id.substr(0, id.find(':')) == name;
    });
    if (!known) {
      std::string all;
      for (const auto& task : record.tasks) all += " " + task.id;
      throw Error(Phase::kUsage, fmt::format("job {} has no task {}", record.id, name),
                  fmt::format("one of:{}", all));
    }
  }
  return selected;
}

}  // namespace tfdist::cli
