// LoadPlan: from a cluster file to a Plan, one step after the other. Each step goes on after the
// mistakes of the one before, so that one run names them all.

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/file.h"
#include "cli/plan/cluster_file.h"
#include "cli/plan/gpus.h"
#include "cli/plan/local_path.h"
#include "cli/plan/machines.h"
#include "cli/plan/placeholders.h"
#include "cli/plan/placement.h"
#include "cli/plan/plan.h"
#include "cli/plan/policies.h"
#include "cli/plan/ports.h"
#include "cli/plan/tf_config_text.h"

namespace tfdist::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLongestFile = 1 << 20;
// Linux: MAX_ARG_STRLEN, execve(2): one argument or variable, its NUL included.
constexpr size_t kLongestArgument = 128 * 1024;

std::optional<std::string> ReadWhole(const fs::path& path, Problems& problems) {
  try {
    auto content = ReadFileIfExists(path, kLongestFile);
    if (!content) problems.Add({}, "there is no such file", "tfdist init writes one");
    return content;
  } catch (const Error& error) {
    problems.Add({}, error.cause());
    return std::nullopt;
  }
}

// What the tables say of one role, the more special first: its own, its model's, [task].
std::vector<const TaskSettings*> SettingsOf(const ClusterFile& file, const Role& role) {
  std::vector<const TaskSettings*> settings;
  if (role.table != nullptr) settings.push_back(&role.table->settings);
  if (role.model != nullptr) settings.push_back(&role.model->settings);
  settings.push_back(&file.task);
  return settings;
}

const std::vector<Located<std::string>>* CommandOf(const ClusterFile& file, const Role& role) {
  for (const TaskSettings* settings : SettingsOf(file, role)) {
    if (settings->command_said) return settings->command ? &*settings->command : nullptr;
  }
  return nullptr;
}

// The first of the tables that says it.
template <typename T>
T Setting(const ClusterFile& file, const Role& role, std::optional<T> TaskSettings::*member,
          T otherwise) {
  for (const TaskSettings* settings : SettingsOf(file, role)) {
    if (settings->*member) return *(settings->*member);
  }
  return otherwise;
}

std::map<std::string, Located<std::string>> EnvOf(const ClusterFile& file, const Role& role) {
  std::map<std::string, Located<std::string>> env;
  for (const TaskSettings* settings : SettingsOf(file, role)) {
    env.insert(settings->env.begin(), settings->env.end());  // keeps what is there
  }
  return env;
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

ClusterSpec ClusterOf(const Plan& plan) {
  std::map<TaskId, const TaskOnHost*> in_order;
  for (const TaskOnHost& task : plan.tasks) in_order[task.id] = &task;
  ClusterSpec cluster;
  for (const auto& [id, task] : in_order) {
    if (task->port == 0) continue;
    const std::string& host = plan.hosts[static_cast<size_t>(task->slot)].address;
    cluster.tasks[id.type].push_back(ToString(HostPort{host, task->port}));
  }
  return cluster;
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

std::string GpuText(const std::vector<int>& gpus) {
  return fmt::format("{}", fmt::join(gpus, ","));
}

// Fills in what each task runs, role by role.
class CommandWriter {
 public:
  CommandWriter(const ClusterFile& file, bool complete, Plan& plan, Problems& problems)
      : file_(file), plan_(plan), problems_(problems), placeholders_(plan, complete, problems) {
    for (const HostPlan& host : plan.hosts) addresses_.push_back(host.address);
  }

  void Write(const Role& role, TaskOnHost& task) {
    if (const auto* command = CommandOf(file_, role)) {
      for (const Located<std::string>& argument : *command) {
        task.argv.push_back(Expand(argument, task, 0));
      }
    }
    if (task.gpus) task.env.emplace_back("CUDA_VISIBLE_DEVICES", GpuText(*task.gpus));
    for (const auto& [name, value] : EnvOf(file_, role)) {
      task.env.emplace_back(name, Expand(value, task, name.size() + 1));
    }
  }

  // TF_CONFIG grows with the job; its length differs by a few digits from task to task.
  void CheckTfConfig() {
    if (!problems_.empty()) return;  // some task may lack a port
    const auto text = TfConfigText(plan_, plan_.tasks.back());
    const size_t length = protocol::Fill(text, addresses_).size() + sizeof "TF_CONFIG=123456";
    if (length <= kLongestArgument) return;
    problems_.Add(file_.cluster,
                  fmt::format("TF_CONFIG would have {} bytes, and Linux takes {} in one variable",
                              length, kLongestArgument),
                  "use fewer tasks");
  }

 private:
  protocol::Text Expand(const Located<std::string>& text, const TaskOnHost& task,
                        size_t name_length) {
    protocol::Text expanded = placeholders_.Expand(text, task);
    const size_t length = name_length + protocol::Fill(expanded, addresses_).size() + 1;
    if (length > kLongestArgument) {
      problems_.Add(text.where, fmt::format("has {} bytes, and Linux takes {} in one argument",
                                            length, kLongestArgument));
    }
    return expanded;
  }

  const ClusterFile& file_;
  Plan& plan_;
  Problems& problems_;
  Placeholders placeholders_;
  std::vector<std::string> addresses_;
};

void ReportMissingCommands(const ClusterFile& file, const Placement& placement,
                           Problems& problems) {
  std::vector<std::string_view> types;
  for (const Role& role : placement.roles) {
    const auto settings = SettingsOf(file, role);
    const bool said = std::any_of(settings.begin(), settings.end(),
                                  [](const TaskSettings* table) { return table->command_said; });
    if (!said) types.push_back(role.type);
  }
  if (types.empty()) return;
  problems.Add({0, 0, "task.command"},
               fmt::format("nothing says what {} runs", fmt::join(types, ", ")),
               "write command = [\"python3\", \"train.py\"] in [task]");
}

void SetCommands(const ClusterFile& file, const Placement& placement, Plan& plan,
                 Problems& problems) {
  ReportMissingCommands(file, placement, problems);
  std::map<std::string_view, const Role*> roles;
  for (const Role& role : placement.roles) roles[role.type] = &role;
  CommandWriter writer(file, placement.complete, plan, problems);
  for (TaskOnHost& task : plan.tasks) writer.Write(*roles.at(task.id.type), task);
  writer.CheckTfConfig();
}

bool HoldsRuntime(const protocol::Text& text) {
  return std::any_of(text.parts.begin(), text.parts.end(), [](const auto& part) {
    const auto* literal = std::get_if<std::string>(&part);
    return literal != nullptr && literal->find(protocol::kRuntimePath) != std::string::npos;
  });
}

bool NeedsRuntime(const Plan& plan) {
  return std::any_of(plan.tasks.begin(), plan.tasks.end(), [](const TaskOnHost& task) {
    return std::any_of(task.argv.begin(), task.argv.end(), HoldsRuntime) ||
           std::any_of(task.env.begin(), task.env.end(),
                       [](const auto& variable) { return HoldsRuntime(variable.second); });
  });
}

Plan MakePlan(const ClusterFile& file, const fs::path& path, Problems& problems) {
  const Placement placement = PlaceTasks(file, problems);
  Plan plan;
  plan.file = path;
  plan.name = file.name;
  plan.layout = file.layout.value;
  plan.hosts = PlanHosts(placement);
  plan.tasks = PlanTasks(file, placement, problems);
  plan.cluster = ClusterOf(plan);
  plan.control_port = file.control_port ? file.control_port->value : 0;
  SetSsh(file.ssh, plan.ssh);
  SetPaths(file, path.parent_path(), plan, problems);
  SetPolicies(file, plan);
  SetCommands(file, placement, plan, problems);
  plan.needs_runtime = NeedsRuntime(plan);
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
