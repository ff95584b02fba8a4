#include "cli/plan/task_commands.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/plan/placeholders.h"
#include "cli/plan/settings.h"
#include "cli/plan/tf_config_text.h"

namespace tfdist::cli {
namespace {

// Linux: MAX_ARG_STRLEN, execve(2): one argument or variable, its NUL included.
constexpr size_t kLongestArgument = size_t{128} * 1024;

const std::vector<Located<std::string>>* CommandOf(const ClusterFile& file, const Role& role) {
  for (const TaskSettings* settings : SettingsOf(file, role)) {
    if (settings->command_said) return settings->command ? &*settings->command : nullptr;
  }
  return nullptr;
}

std::map<std::string, Located<std::string>> EnvOf(const ClusterFile& file, const Role& role) {
  std::map<std::string, Located<std::string>> env;
  for (const TaskSettings* settings : SettingsOf(file, role)) {
    env.insert(settings->env.begin(), settings->env.end());  // keeps what is there
  }
  // Else Python holds back what it prints to a pipe until 8 KiB are full. Empty: as without it.
  env.try_emplace("PYTHONUNBUFFERED", Located<std::string>{"1", {}});
  return env;
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
    const size_t length =
        protocol::Fill(text, addresses_, plan_.common).size() + sizeof "TF_CONFIG=123456";
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
    const size_t length =
        name_length + protocol::Fill(expanded, addresses_, plan_.common).size() + 1;
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

}  // namespace

void SetCommands(const ClusterFile& file, const Placement& placement, Plan& plan,
                 Problems& problems) {
  ReportMissingCommands(file, placement, problems);
  std::map<std::string_view, const Role*> roles;
  for (const Role& role : placement.roles) roles[role.type] = &role;
  CommandWriter writer(file, placement.complete, plan, problems);
  for (TaskOnHost& task : plan.tasks) writer.Write(*roles.at(task.id.type), task);
  writer.CheckTfConfig();
}

}  // namespace tfdist::cli
