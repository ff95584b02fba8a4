#include "cli/find/adopt_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/failures.h"
#include "cli/find/job_view.h"
#include "cli/hosts/for_each_host.h"
#include "cli/job/connector.h"
#include "cli/plan/describe.h"
#include "runtime/tf_config.h"

namespace tfdist::cli {
namespace {

using namespace std::chrono_literals;

constexpr auto kLookLimit = 30s;

// As the slot that is to run the task was told it; a spare host knows it, too.
void LearnCommands(const std::vector<std::optional<RemoteJob>>& told, JobRecord& record) {
  Plan plan;
  plan.hosts = record.hosts;
  for (JobRecord::Task& task : record.tasks) {
    if (!task.command.empty()) continue;
    for (size_t slot = 0; slot < told.size(); ++slot) {
      if (!told[slot]) continue;
      const auto known = std::ranges::find(told[slot]->tasks, task.id, &protocol::SlotTask::task);
      if (known == told[slot]->tasks.end()) continue;
      plan.common = told[slot]->common;
      TaskOnHost as_told;
      as_told.argv = known->argv;
      task.command = CommandAsWritten(plan, as_told);
      if (slot == static_cast<size_t>(task.slot)) break;
    }
  }
}

// Where tfdist's folder is on each host that has this job, and what its tasks run. A host that does not answer now keeps an
// empty folder, and is named where it is needed.
void LearnFromHosts(JobRecord& record) {
  record.bases.assign(record.hosts.size(), "");
  record.base_ids.assign(record.hosts.size(), "");
  std::vector<std::optional<RemoteJob>> told(record.hosts.size());
  std::vector<std::string> starters(record.hosts.size());
  (void)ForEachHost(record.hosts.size(), [&](size_t slot) {
    for (RemoteJob& found : JobsOn(record.hosts[slot], record.ssh, record.name, record.id)) {
      if (found.job != record.id) continue;
      record.bases[slot] = found.base;
      record.base_ids[slot] = found.base_id;
      starters[slot] = found.started_by;
      if (!told[slot] || found.slot == static_cast<int>(slot)) told[slot] = std::move(found);
    }
  });
  const auto known =
      std::ranges::find_if(starters, [](const std::string& who) { return !who.empty(); });
  if (known != starters.end()) record.started_by = *known;
  LearnCommands(told, record);
}

// As the cluster file reaches them; the first one has answered. A host with several slots stands there once for each.
std::vector<HostPlan> HostsOf(const protocol::JobPlan& job, const Plan& plan) {
  std::multimap<std::string, const HostPlan*> known;
  for (const HostPlan& host : plan.hosts) known.emplace(host.name, &host);
  std::vector<HostPlan> hosts;
  for (const protocol::SlotPlan& slot : job.slots) {
    HostPlan& host = hosts.emplace_back();
    if (const auto found = known.find(slot.host); found != known.end()) {
      host = *found->second;
      known.erase(found);
    } else if (hosts.size() == 1) {
      host = plan.hosts[0];
    }
    host.name = slot.host;
    host.spare = slot.spare;
  }
  return hosts;
}

// Tasks' names become file names here, and their slots are looked up.
void CheckTasks(const protocol::JobPlan& job) {
  for (const protocol::TaskPlan& task : job.tasks) {
    const bool has_slot = task.slot >= 0 && static_cast<size_t>(task.slot) < job.slots.size();
    if (has_slot && ParseTaskId(task.task)) continue;
    throw ProtocolError(Phase::kControl,
                        fmt::format("the job has a task '{}' on slot {}", task.task, task.slot));
  }
}

// The file has changed since, or is another one of that name.
void TakeWhatTheHostKnows(const protocol::JobPlan& job, const Plan& plan, JobRecord& record) {
  CheckTasks(job);
  record.plan_sha256 = job.plan_sha256;
  record.file.clear();
  record.clients.clear();
  record.tasks.clear();
  record.settings.clear();
  for (const protocol::TaskPlan& task : job.tasks)
    record.tasks.push_back({task.task, task.slot, {}});
  if (!job.slots.empty()) record.hosts = HostsOf(job, plan);
}

JobRecord RecordFor(const Plan& plan, const std::string& id) {
  JobRecord record = MakeRecord(plan, id, HashOf(plan));
  record.elsewhere = true;
  record.started_by.clear();
  record.created = CreatedBy(id);
  return record;
}

// Of a job that has not begun, or whose first host does not answer, there is none: whoever wants more of that host is told
// why, and `down` asks each host of the file.
protocol::JobPlan AskForPlan(JobRecord& record) {
  try {
    const JobView view = LookAt(record, {}, kLookLimit);
    record.last_seen = SeenIn(view.state, view.live, view.ahead_ns);
    return view.state.plan;
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

std::string CreatedBy(const std::string& id) {
  constexpr size_t kBack = sizeof("20260801T120000Z-1a2b3c") - 1;
  if (id.size() < kBack) return "";
  const std::string time = id.substr(id.size() - kBack);
  return fmt::format("{}-{}-{}T{}:{}:{}Z", time.substr(0, 4), time.substr(4, 2), time.substr(6, 2),
                     time.substr(9, 2), time.substr(11, 2), time.substr(13, 2));
}

std::vector<RemoteJob> JobsOn(const HostPlan& host, const SshOptions& ssh, const std::string& name,
                              const std::string& tasks_of) {
  const auto transport = MakeTransport(host, ssh);
  return FindJobs({*transport, GetEmbeddedAgents(), ssh.remote_dir, kLookLimit}, name, tasks_of);
}

JobRecord AdoptJobOf(const Plan& plan, const std::string& id) {
  JobRecord record = RecordFor(plan, id);
  LearnFromHosts(record);
  return record;
}

JobRecord AdoptJob(const Plan& plan, const std::string& id) {
  JobRecord record = RecordFor(plan, id);
  const protocol::JobPlan job = AskForPlan(record);
  if (job.plan_sha256 != record.plan_sha256) TakeWhatTheHostKnows(job, plan, record);
  LearnFromHosts(record);
  return record;
}

}  // namespace tfdist::cli
