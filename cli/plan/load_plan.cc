// LoadPlan: from a cluster file to a Plan, one step after the other. Each step goes on after the
// mistakes of the one before, so that one run names them all.

#include <algorithm>
#include <optional>

#include "base/file.h"
#include "cli/cluster_file/cluster_file.h"
#include "cli/cluster_file/problems.h"
#include "cli/plan/cluster_spec.h"
#include "cli/plan/gpus.h"
#include "cli/plan/local_path.h"
#include "cli/plan/machines.h"
#include "cli/plan/placement.h"
#include "cli/plan/plan.h"
#include "cli/plan/policies.h"
#include "cli/plan/ports.h"
#include "cli/plan/settings.h"
#include "cli/plan/task_commands.h"

namespace tfdist::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLongestFile = size_t{1} << 20;

std::optional<std::string> ReadWhole(const fs::path& path, Problems& problems) {
  try {
    auto content = ReadFileIfExists(path, kLongestFile);
    if (!content) problems.Add({}, "there is no such file");
    return content;
  } catch (const Error& error) {
    problems.Add({}, error.cause());
    return std::nullopt;
  }
}

std::vector<HostPlan> PlanHosts(const Placement& placement) {
  std::vector<HostPlan> hosts;
  for (const HostEntry& entry : placement.hosts) {
    HostPlan host;
    host.name = entry.address;
    host.address = entry.address;
    host.ssh = entry.ssh;
    host.local = entry.local;
    host.spare = entry.spare;
    host.gpus = entry.gpus.value_or(std::vector<int>());
    hosts.push_back(std::move(host));
  }
  return hosts;
}

// In host order, and on each host in the order of the roles.
std::vector<TaskOnHost> PlanTasks(const ClusterFile& file, const Placement& placement,
                                  Problems& problems) {
  const std::vector<int> machines = NumberMachines(placement.hosts);
  const auto ports = AssignPorts(file, placement, machines, problems);
  const auto gpus = AssignGpus(file, placement, machines, problems);
  std::vector<TaskOnHost> tasks;
  for (size_t r = 0; r < placement.roles.size(); ++r) {
    const Role& role = placement.roles[r];
    for (size_t i = 0; i < role.slots.size(); ++i) {
      TaskOnHost task;
      task.id = {role.type, static_cast<int>(i)};
      task.slot = role.slots[i];
      task.port = ports[r][i];
      task.gpus = gpus[r][i];
      task.may_fail = role.type == "evaluator";
      task.merged_output = Setting(file, role, &TaskSettings::merged_output, task.merged_output);
      task.log_limit_bytes =
          Setting(file, role, &TaskSettings::log_limit_bytes, task.log_limit_bytes);
      task.grace_ms = Setting(file, role, &TaskSettings::grace_ms, task.grace_ms);
      tasks.push_back(std::move(task));
    }
  }
  std::stable_sort(tasks.begin(), tasks.end(),
                   [](const TaskOnHost& a, const TaskOnHost& b) { return a.slot < b.slot; });
  return tasks;
}

void SetPolicies(const ClusterFile& file, Plan& plan) {
  const std::optional<TaskId> chief = ChiefOf(plan.cluster);
  const bool has_workers = plan.cluster.tasks.contains("worker");
  for (TaskOnHost& task : plan.tasks) {
    task.chief = task.id == chief;
    task.decides = Decides(file, task.id, task.chief, has_workers);
    task.restart = RestartRuleOf(file, task.id, task.chief);
  }
}

void SetPaths(const ClusterFile& file, const fs::path& folder, Plan& plan, Problems& problems) {
  if (file.workdir) plan.workdir = FindFolder(*file.workdir, folder, problems);
  if (file.shared) plan.shared = file.shared->value;
  if (file.ssh.identity_file) {
    if (const auto path = FindFile(*file.ssh.identity_file, folder, problems)) {
      plan.ssh.identity_file = path->string();
    }
  }
  if (file.ssh.config) {
    plan.ssh.config = FindFile(*file.ssh.config, folder, problems).value_or(fs::path());
  }
}

void SetSsh(const SshTable& table, SshOptions& ssh) {
  ssh.user = table.user.value_or("");
  ssh.port = table.port;
  ssh.host_keys = table.host_keys.value_or(ssh.host_keys);
  ssh.remote_dir = table.remote_dir.value_or("");
}

Plan MakePlan(const ClusterFile& file, const fs::path& path, Problems& problems) {
  const Placement placement = PlaceTasks(file, problems);
  Plan plan;
  plan.file = path;
  plan.name = file.name;
  plan.layout = file.layout.value;
  plan.hosts = PlanHosts(placement);
  plan.tasks = PlanTasks(file, placement, problems);
  plan.cluster = MakeClusterSpec(plan, [&plan](const TaskOnHost& task) {
    return ToString(HostPort{plan.hosts[static_cast<size_t>(task.slot)].address, task.port});
  });
  plan.control_port = file.control_port ? file.control_port->value : 0;
  SetSsh(file.ssh, plan.ssh);
  SetPaths(file, path.parent_path(), plan, problems);
  SetPolicies(file, plan);
  SetCommands(file, placement, plan, problems);
  return plan;
}

}  // namespace

Plan LoadPlan(const fs::path& file) {
  Problems problems;
  std::optional<Plan> plan;
  if (const auto content = ReadWhole(file, problems)) {
    if (const auto read = ReadClusterFile(*content, problems)) {
      plan = MakePlan(*read, fs::absolute(file).lexically_normal(), problems);
    }
  }
  if (!problems.empty()) throw PlanErrors(file, problems.Sorted());
  return *std::move(plan);
}

}  // namespace tfdist::cli
