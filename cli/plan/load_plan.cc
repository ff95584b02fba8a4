// LoadPlan: from a cluster file to a Plan, one step after the other. Each step goes on after the
// mistakes of the one before, so that one run names them all.

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <chrono>
#include <csignal>
#include <optional>
#include <set>
#include <tuple>

#include "base/failures.h"
#include "base/file.h"
#include "base/text.h"
#include "cli/cluster_file/command_line_job.h"
#include "cli/cluster_file/nearest.h"
#include "cli/cluster_file/problems.h"
#include "cli/cluster_file/read_cluster_file.h"
#include "cli/cluster_file/slurm_hosts.h"
#include "cli/cluster_file/standard_input.h"
#include "cli/plan/added_words.h"
#include "cli/plan/cluster_spec.h"
#include "cli/plan/container_clients.h"
#include "cli/plan/containers.h"
#include "cli/plan/data.h"
#include "cli/plan/gpus.h"
#include "cli/plan/host_env.h"
#include "cli/plan/host_files.h"
#include "cli/plan/local_path.h"
#include "cli/plan/machines.h"
#include "cli/plan/placement.h"
#include "cli/plan/plan.h"
#include "cli/plan/policies.h"
#include "cli/plan/ports.h"
#include "cli/plan/program_rules.h"
#include "cli/plan/set_up.h"
#include "cli/plan/settings.h"
#include "cli/plan/task_commands.h"

namespace tfdist::cli {
namespace {

namespace fs = std::filesystem;

// ssh -F takes them, and reads nothing.
bool IsNoConfig(std::string_view config) { return config == "none" || config == "/dev/null"; }

constexpr size_t kLongestFile = size_t{1} << 20;
// Rank 0 may write its last checkpoint while the others have ended.
constexpr int64_t kMirroredFinishMs = 600'000;

// A file beside it of nearly that name, else how one is made.
std::string HintForMissing(const fs::path& path) {
  const fs::path folder = path.has_parent_path() ? path.parent_path() : ".";
  std::vector<std::string> names;
  std::error_code none;
  for (fs::directory_iterator at(folder, none), end; !none && at != end; at.increment(none)) {
    if (at->path().extension() == ".toml") names.push_back(at->path().filename().string());
  }
  const std::vector<std::string_view> known(names.begin(), names.end());
  std::string meant = DidYouMean(path.filename().string(), known);
  if (!meant.empty()) return meant;
  return fmt::format("tfdist init HOST... -o {} writes one", path.string());
}

std::optional<std::string> ReadWhole(const fs::path& path, Problems& problems) {
  try {
    if (path == kStandardInput) return ReadStandardInput(kLongestFile);
    auto content = ReadFileIfExists(path, kLongestFile);
    if (!content) problems.Add({}, "there is no such file", HintForMissing(path));
    return content;
  } catch (const Error& error) {
    problems.Add({}, error.cause());
    return std::nullopt;
  }
}

std::vector<HostPlan> PlanHosts(const Placement& placement) {
  const std::vector<int> machines = NumberMachines(placement.hosts);
  std::map<int, int> slots;
  for (const int machine : machines) ++slots[machine];
  std::vector<HostPlan> hosts;
  std::set<int> seen;
  for (const HostEntry& entry : placement.hosts) {
    HostPlan host;
    host.name = entry.address;
    host.address = entry.address;
    host.ssh = entry.ssh;
    host.ssh_user = entry.ssh_user;
    host.ssh_port = entry.ssh_port;
    host.transport = entry.transport;
    host.slurm_job = entry.slurm_job;
    host.local = entry.local;
    host.spare = entry.spare;
    host.slots = slots[machines[hosts.size()]];
    host.first_of_machine = seen.insert(machines[hosts.size()]).second;
    host.gpus = entry.gpus.value_or(std::vector<std::string>());
    hosts.push_back(std::move(host));
  }
  return hosts;
}

// 0: the chief, 2: ps, 1: all others.
int RankOfType(const std::string& type) { return IsChiefType(type) ? 0 : type == "ps" ? 2 : 1; }

// The chief first, ps last, other types as the file has them, each by its index. `machines`: by slot.
void SetRanks(const std::vector<Role>& roles, const std::vector<int>& machines, Plan& plan) {
  std::vector<TaskOnHost*> in_order;
  for (TaskOnHost& task : plan.tasks) {
    if (task.port != 0) in_order.push_back(&task);
  }
  std::ranges::sort(in_order, {}, [&](const TaskOnHost* task) {
    const auto place = std::ranges::find(roles, task->id.type, &Role::type) - roles.begin();
    return std::tuple(RankOfType(task->id.type), place, task->id.index);
  });
  std::map<int, std::vector<TaskOnHost*>> nodes;  // by machine
  for (TaskOnHost* task : in_order) {
    auto& node = nodes[machines[static_cast<size_t>(task->slot)]];
    task->rank = plan.world_size++;
    task->local_rank = static_cast<int>(node.size());
    task->node_rank = node.empty() ? plan.node_count++ : node.front()->node_rank;
    node.push_back(task);
  }
  for (const auto& [machine, node] : nodes) {
    for (TaskOnHost* task : node) task->local_world_size = static_cast<int>(node.size());
  }
}

// In host order, and on each host in the order of the roles.
void PlanTasks(const ClusterFile& file, const Placement& placement, Plan& plan,
               Problems& problems) {
  const std::vector<int> machines = NumberMachines(placement.hosts);
  const auto ports = AssignPorts(file, placement, machines, problems);
  const auto gpus = AssignGpus(file, placement, machines, problems);
  for (size_t r = 0; r < placement.roles.size(); ++r) {
    const Role& role = placement.roles[r];
    for (size_t i = 0; i < role.slots.size(); ++i) {
      TaskOnHost task;
      task.id = {role.type, static_cast<int>(i)};
      task.slot = role.slots[i];
      task.port = ports[r][i].own;
      task.more_ports = ports[r][i].more;
      task.gpus = gpus[r][i].listed;
      task.gpu_share = gpus[r][i].share;
      task.may_fail = role.type == "evaluator";
      task.merged_output = Setting(file, role, &TaskSettings::merged_output, task.merged_output);
      task.log_limit_bytes =
          Setting(file, role, &TaskSettings::log_limit_bytes, task.log_limit_bytes);
      task.grace_ms = Setting(file, role, &TaskSettings::grace_ms, task.grace_ms);
      plan.tasks.push_back(std::move(task));
    }
  }
  std::ranges::stable_sort(plan.tasks, {}, &TaskOnHost::slot);
  SetRanks(placement.roles, machines, plan);
}

bool NamesPorts(const ClusterFile& file) {
  return file.any_ports || !file.ports.empty() ||
         std::ranges::any_of(file.roles, [](const RoleTable& role) {
           return role.ports.has_value() || !role.more_ports.empty();
         });
}

// "auto", of all tasks or of some.
bool DrawsPorts(const ClusterFile& file) {
  const auto is_drawn = [](const auto& named) { return named.second.value.any; };
  return file.any_ports || std::ranges::any_of(file.ports, is_drawn) ||
         std::ranges::any_of(file.roles, [&](const RoleTable& role) {
           return (role.ports && role.ports->value.any) ||
                  std::ranges::any_of(role.more_ports, is_drawn);
         });
}

// An agent must not give the coordinator up before it is given up itself.
int64_t OrphanTimeoutOf(const ClusterFile& file, const Plan& plan, Problems& problems) {
  const int64_t least_ms = 2 * plan.host_lost_ms;
  if (!file.orphan_timeout_ms) return std::max(plan.orphan_timeout_ms, least_ms);
  if (file.orphan_timeout_ms->value < least_ms) {
    problems.Add(file.orphan_timeout_ms->where,
                 fmt::format("expected {} at least: twice host_lost",
                             DurationText(std::chrono::milliseconds(least_ms))));
  }
  return file.orphan_timeout_ms->value;
}

void SetPolicies(const ClusterFile& file, Plan& plan, Problems& problems) {
  plan.on_host_lost = file.on_host_lost.value_or(plan.on_host_lost);
  plan.host_lost_ms = file.host_lost_ms.value_or(plan.host_lost_ms);
  plan.exclusive = file.exclusive.value_or(plan.exclusive);
  plan.orphan_timeout_ms = OrphanTimeoutOf(file, plan, problems);
  if (file.deadline_ms) plan.deadline_ms = file.deadline_ms->value;
  plan.deadline_succeeds = file.on_deadline && file.on_deadline->value == "succeed";
  if (file.deadline_ms && file.warning_ms) {
    plan.warning_ms = file.warning_ms->value;
    plan.warning_signal = file.warning_signal ? file.warning_signal->value : SIGUSR1;
  }
  plan.silent_after_ms = file.silent_after_ms.value_or(plan.silent_after_ms);
  // Of a collective strategy all workers end together, or one of them hangs.
  const int64_t finish_timeout_ms = file.layout.value == "mirrored" ? kMirroredFinishMs : 0;
  plan.finish_timeout_ms = file.finish_timeout_ms.value_or(finish_timeout_ms);
  plan.rest_timeout_ms = RestTimeoutOf(file);
  const std::optional<TaskId> chief = ChiefOf(plan.cluster);
  const bool has_workers = plan.cluster.tasks.contains("worker");
  for (TaskOnHost& task : plan.tasks) {
    task.chief = task.id == chief;
    task.decides = Decides(file, task.id, task.chief, has_workers);
    task.restart = RestartRuleOf(file, task.id, task.chief);
  }
}

// {shared} alone is known without a task.
std::string LogFolder(const Located<std::string>& logdir, const std::string& shared,
                      Problems& problems) {
  constexpr std::string_view kShared = "{shared}";
  std::string folder = logdir.value;
  if (folder.starts_with(kShared)) {
    folder.replace(0, kShared.size(), shared);
    if (shared.empty()) {
      problems.Add(logdir.where, "{shared} stands for nothing: [task] has no shared");
    }
  }
  if (folder.find('{') != folder.npos) {
    problems.Add(logdir.where, "only {shared} may stand here, at the beginning");
  }
  return folder;
}

void SetPaths(const ClusterFile& file, const fs::path& folder, Plan& plan, Problems& problems) {
  if (file.workdir) plan.workdir = FindFolder(*file.workdir, folder, problems);
  if (file.shared) plan.shared = file.shared->value;
  if (file.logdir) plan.logdir = LogFolder(*file.logdir, plan.shared, problems);
  if (file.ssh.identity_file) {
    if (const auto path = FindFile(*file.ssh.identity_file, folder, problems)) {
      plan.ssh.identity_file = path->string();
    }
  }
  if (file.ssh.config) {
    plan.ssh.config = IsNoConfig(file.ssh.config->value)
                          ? fs::path(file.ssh.config->value)
                          : FindFile(*file.ssh.config, folder, problems).value_or(fs::path());
  }
}

void SetSsh(const SshTable& table, SshOptions& ssh) {
  ssh.user = table.user.value_or("");
  ssh.port = table.port;
  ssh.host_keys = table.host_keys.value_or(ssh.host_keys);
  ssh.transport = table.transport.value_or(ssh.transport);
  ssh.remote_dir = table.remote_dir.value_or("");
}

// Nodes of an allocation are reached by its own steps, unless the file says otherwise.
void ReachBySlurm(const ClusterFile& file, const Placement& placement, Plan& plan,
                  Problems& problems) {
  for (size_t slot = 0; slot < plan.hosts.size(); ++slot) {
    HostPlan& host = plan.hosts[slot];
    const std::string given = host.transport.empty() ? plan.ssh.transport : host.transport;
    const bool is_default = host.transport.empty() && !file.ssh.transport;
    const bool by_srun = is_default ? !host.slurm_job.empty() : given == "srun" && !host.local;
    if (by_srun && host.slurm_job.empty()) host.slurm_job = SlurmJob();
    if (!by_srun) host.slurm_job.clear();
    if (!by_srun || !host.slurm_job.empty()) continue;
    problems.Add(placement.hosts[slot].where,
                 "transport = \"srun\" needs an allocation of Slurm, and SLURM_JOB_ID is not set",
                 "call tfdist in a shell of salloc, or in a script of sbatch");
    return;
  }
}

// `folder`: from where the paths of `file` count.
Plan MakePlan(const ClusterFile& file, const fs::path& folder, Problems& problems) {
  const Placement placement = PlaceTasks(file, problems);
  Plan plan;
  plan.name = file.name;
  plan.name_is_made = file.name_is_made;
  plan.draws_ports = DrawsPorts(file) || !NamesPorts(file);
  plan.layout = file.layout.value;
  plan.hosts = PlanHosts(placement);
  PlanTasks(file, placement, plan, problems);
  plan.cluster = MakeClusterSpec(plan);
  plan.common = MakeCommonTexts(plan.tasks);
  plan.needs_ports = plan.tasks.size() > 1 || NamesPorts(file);
  plan.control_port = file.control_port ? file.control_port->value : 0;
  plan.python_packages = file.python_packages;
  SetSsh(file.ssh, plan.ssh);
  ReachBySlurm(file, placement, plan, problems);
  SetPaths(file, folder, plan, problems);
  SetPolicies(file, plan, problems);
  PlanData(file, folder, placement, plan, problems);
  SetContainers(file, folder, placement, plan, problems);
  PlanSetUp(file, placement, plan, problems);
  SetCommands(file, placement, plan, problems);
  SetHostEnv(file, placement, plan, problems);
  WarnOfContainerClients(plan);
  WarnOfFoldersOfImages(plan);
  if (auto warning = WarningOfTfConfig(getenv("TF_CONFIG")); !warning.empty()) {
    plan.warnings.push_back(std::move(warning));
  }
  return plan;
}

void Change(const PlanChanges& changes, ClusterFile& file, Problems& problems) {
  file.given_env = ReadGivenEnv(changes.env, problems);
  file.port_draw = changes.port_draw;
  file.own_host = changes.own_host;
  if (changes.arguments.empty()) return;
  if (!file.task.command) {
    if (!file.task.command_said) {
      problems.Add({0, 0, "--"}, "the words after -- go to the command of [task], which has none");
    }
    return;
  }
  AddWords(changes.arguments, *file.task.command, problems);
}

void WarnOfOwnCommands(const ClusterFile& file, Plan& plan) {
  for (const RoleTable& role : file.roles) {
    if (!role.settings.command) continue;
    plan.warnings.push_back(fmt::format(
        "[roles.{}] has its own command, which does not get the words after --", role.type));
  }
}

bool IsTheRuntime(const TaskOnHost& task) {
  return !task.argv.empty() && task.argv[0] == protocol::Text(std::string(protocol::kRuntimePath));
}

// A program that needs no parameter server would count them as its own: WORLD_SIZE is twice the hosts.
void WarnOfServersNobodyNamed(const ClusterFile& file, Plan& plan) {
  const bool is_named = file.layout_said || !file.roles.empty() || file.ports.contains("ps") ||
                        file.program || std::ranges::any_of(plan.tasks, IsTheRuntime);
  if (is_named) return;
  plan.warnings.emplace_back(
      "the file does not say its layout, so a ps runs beside each trainer: write layout = "
      "\"mirrored\" in [cluster] for one worker on each host, as PyTorch needs, or layout = "
      "\"uai\"");
}

// What every later step relies on where the file has no mistake.
void AssertWhole(const Plan& plan) {
  assert(!plan.hosts.empty() && !plan.tasks.empty());
  for (const TaskOnHost& task : plan.tasks) {
    assert(task.slot >= 0 && static_cast<size_t>(task.slot) < plan.hosts.size());
    assert(!plan.hosts[static_cast<size_t>(task.slot)].spare);
    assert(!task.argv.empty());
  }
}

}  // namespace

Plan LoadPlan(const fs::path& file, const PlanChanges& changes) {
  Problems problems;
  std::optional<Plan> plan;
  const bool is_file = !IsReadOnce(file);
  const fs::path absolute = fs::absolute(file).lexically_normal();
  const fs::path folder = is_file ? absolute.parent_path() : fs::current_path();
  if (const auto content = ReadWhole(file, problems)) {
    if (auto read = ReadClusterFile(*content, changes.settings, problems)) {
      Change(changes, *read, problems);
      ReadHostFiles(*read, folder, problems);
      plan = MakePlan(*read, folder, problems);
      if (!changes.arguments.empty()) WarnOfOwnCommands(*read, *plan);
      if (problems.empty()) WarnOfServersNobodyNamed(*read, *plan);
      if (is_file) plan->file = absolute;
    }
  }
  if (!problems.empty()) {
    throw PlanErrors(file == kStandardInput ? fs::path("<stdin>") : file, problems.Sorted());
  }
  AssertWhole(*plan);
  return *std::move(plan);
}

namespace {

// As ssh:// and scp of other tools write the port of a host.
void WarnOfPorts(const ClusterFile& file, Plan& plan) {
  constexpr int kPortOfSsh = 22;
  if (!file.hosts) return;
  for (const HostEntry& host : file.hosts->hosts) {
    if (host.slots != kPortOfSsh) continue;
    plan.warnings.push_back(
        fmt::format("{0}:{1} means {1} slots of {0}, each with its tasks, and no port",
                    host.address, host.slots));
  }
}

}  // namespace

Plan PlanCommandLine(const CommandLineJob& job) {
  Problems problems;
  ClusterFile file = ClusterFileOf(job, problems);
  ReadHostFiles(file, fs::current_path(), problems);
  Plan plan = MakePlan(file, fs::current_path(), problems);
  if (!problems.empty()) throw PlanErrors("command line", problems.Sorted());
  WarnOfPorts(file, plan);
  AssertWhole(plan);
  return plan;
}

}  // namespace tfdist::cli
