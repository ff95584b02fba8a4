#include "cli/plan/task_commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>

#include "cli/plan/added_words.h"
#include "cli/plan/placeholders.h"
#include "cli/plan/settings.h"
#include "cli/plan/tensorflow_server.h"
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
  return env;
}

bool EndsInShell(const protocol::Text& word) {
  const auto* literal = word.parts.empty() ? nullptr : std::get_if<std::string>(&word.parts.back());
  return literal != nullptr && IsShell(*literal);
}

// "$HOME", "${PATH}": the first in a text that no shell reads.
std::optional<std::string> ShellVariableIn(std::string_view text) {
  for (size_t at = text.find('$'); at != text.npos; at = text.find('$', at + 1)) {
    const bool braced = text.substr(at + 1).starts_with('{');
    const size_t begin = at + (braced ? 2 : 1);
    size_t end = begin;
    while (end < text.size() && (text[end] == '_' || (text[end] >= 'A' && text[end] <= 'Z') ||
                                 (end > begin && text[end] >= '0' && text[end] <= '9'))) {
      ++end;
    }
    const bool closed = !braced || (end < text.size() && text[end] == '}');
    if (end > begin + 1 && closed) return std::string(text.substr(begin, end - begin));
  }
  return std::nullopt;
}

std::string GpuText(const std::vector<std::string>& gpus) {
  return fmt::format("{}", fmt::join(gpus, ","));
}

// Whether the path begins at the root, at a placeholder for a path, or at a variable of the host.
bool IsOfTheHost(const protocol::Text& path) {
  // A literal in front of a placeholder is empty.
  const auto first = std::ranges::find_if(
      path.parts, [](const auto& part) { return part != protocol::Text::Part(std::string()); });
  const auto* begin = first == path.parts.end() ? nullptr : std::get_if<std::string>(&*first);
  return begin == nullptr || begin->starts_with('/') || begin->starts_with('\0');
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
      for (const auto& argument : WithTensorFlowServer(file_, *command)) {
        task.argv.push_back(Expand(argument, task, 0));
      }
      if (std::ranges::none_of(task.argv, EndsInShell)) WarnOfShellVariables(*command);
    }
    WriteStartFolder(role, task);
    // Else CUDA counts from the fastest card on, nvidia-smi and the cluster file by their places.
    const bool by_number = task.gpu_share || (task.gpus && !task.gpus->empty());
    if (by_number) task.env.emplace_back("CUDA_DEVICE_ORDER", "PCI_BUS_ID");
    if (task.gpus) task.env.emplace_back("CUDA_VISIBLE_DEVICES", GpuText(*task.gpus));
    WriteEnv(role, task);
  }

  // TF_CONFIG grows with the job; its length differs by a few digits from task to task.
  void CheckTfConfig() {
    if (!problems_.empty()) return;  // some task may lack a port
    const auto text = TfConfigText(plan_, plan_.tasks.back());
    const size_t length = Fill(text).size() + sizeof "TF_CONFIG=123456";
    if (length <= kLongestArgument) return;
    problems_.Add(file_.cluster,
                  fmt::format("TF_CONFIG would have {} bytes, and Linux takes {} in one variable",
                              length, kLongestArgument),
                  "use fewer tasks");
  }

 private:
  // What the role's own table says, or the one that it follows.
  std::optional<Located<std::string>> SaidOf(
      const Role& role, std::optional<Located<std::string>> TaskSettings::*key) {
    std::optional<Located<std::string>> said;
    for (const TaskSettings* settings : SettingsOf(file_, role)) {
      if (!said) said = settings->*key;
    }
    return said;
  }

  void WriteStartFolder(const Role& role, TaskOnHost& task) {
    const auto cwd = SaidOf(role, &TaskSettings::cwd);
    if (!cwd) return;
    task.cwd = Expand(*cwd, task, 0);
    CheckStartFolder(*cwd, task.cwd);
  }

  // It is looked for before anybody's address is known.
  void CheckStartFolder(const Located<std::string>& said, const protocol::Text& cwd) {
    for (const auto& part : cwd.parts) {
      const bool is_known = std::holds_alternative<std::string>(part) ||
                            std::holds_alternative<protocol::HostVariable>(part);
      if (!is_known) problems_.Add(said.where, "no address of a task can stand here");
    }
    if (IsOfTheHost(cwd)) return;
    if (!plan_.workdir) {
      problems_.Add(said.where, "counts from the work folder, and [task] has no workdir",
                    "write workdir = \".\", or an absolute path of the hosts");
    } else if (*std::filesystem::path(said.value).lexically_normal().begin() == "..") {
      problems_.Add(said.where, "leads out of the work folder",
                    "a path inside it, or an absolute one of the hosts");
    }
  }

  // Over each other, the first counts: --env, the file, the user's shell, what Python needs.
  void WriteEnv(const Role& role, TaskOnHost& task) {
    std::map<std::string, protocol::Text> env;
    for (const auto& [name, value] : file_.given_env) env.try_emplace(name, value);
    for (const auto& [name, value] : EnvOf(file_, role)) {
      if (env.contains(name)) continue;
      env.emplace(name, Expand(value, task, name.size() + 1));
      WarnOfShellVariables({value});
    }
    for (const TaskSettings* settings : SettingsOf(file_, role)) {
      for (const std::string& name : settings->env_from) AddFromShell(name, env);
    }
    Activate(role, task, env);
    // Else Python holds back what it prints to a pipe until 8 KiB are full. Empty: as without it.
    env.try_emplace("PYTHONUNBUFFERED", "1");
    for (auto& [name, text] : env) {
      const auto is_same = [&key = name](const auto& variable) { return variable.first == key; };
      std::erase_if(task.env, is_same);
      task.env.emplace_back(name, std::move(text));
    }
  }

  // As the environment's own `activate` does; the agent looks whether the environment is there.
  void Activate(const Role& role, TaskOnHost& task, std::map<std::string, protocol::Text>& env) {
    const auto [venv, conda] = PythonOf(role);
    if (conda) task.conda = CondaOf(*conda, task);
    if (!venv) return;
    const protocol::Text folder = Expand(*venv, task, sizeof "VIRTUAL_ENV");
    if (!IsOfTheHost(folder)) {
      problems_.Add(
          venv->where, "is no path of the hosts",
          "write ~/NAME, /PATH, {setup}/NAME, {keep}/NAME or {shared}/NAME: an environment has its "
          "own "
          "path in it, and is made where "
          "it is used");
    }
    protocol::Text path = folder;
    path.parts.emplace_back("/bin:");
    const auto said = env.find("PATH");
    const protocol::Text rest = said != env.end() ? said->second : protocol::Text();
    path.parts.insert(path.parts.end(), rest.parts.begin(), rest.parts.end());
    if (said == env.end()) path.parts.emplace_back(protocol::HostVariable{"PATH"});
    env.insert_or_assign("PATH", std::move(path));
    env.insert_or_assign("VIRTUAL_ENV", folder);
    env.try_emplace("PYTHONHOME", "");  // another installation's; empty: as without it
  }

  // The environment of the nearest table that names one, of either kind.
  std::pair<std::optional<Located<std::string>>, std::optional<Located<std::string>>> PythonOf(
      const Role& role) {
    for (const TaskSettings* settings : SettingsOf(file_, role)) {
      if (settings->venv || settings->conda) return {settings->venv, settings->conda};
    }
    return {};
  }

  // A name, or a path.
  protocol::Text CondaOf(const Located<std::string>& conda, const TaskOnHost& task) {
    protocol::Text text = Expand(conda, task, sizeof "CONDA_PREFIX");
    if (conda.value.find('/') != conda.value.npos && !IsOfTheHost(text)) {
      problems_.Add(conda.where, "is no path of the hosts",
                    "write the environment's name, or ~/NAME or /PATH");
    }
    return text;
  }

  void AddFromShell(const std::string& name, std::map<std::string, protocol::Text>& env) {
    if (env.contains(name)) return;
    if (file_.own_host) {
      env[name].parts.emplace_back(protocol::HostVariable{name});
      return;
    }
    if (const char* value = getenv(name.c_str())) {  // NOLINT(concurrency-mt-unsafe)
      env.emplace(name, std::string(value));
      return;
    }
    auto& missing = plan_.missing_variables;
    if (std::ranges::find(missing, name) == missing.end()) missing.push_back(name);
  }

  void WarnOfShellVariables(const std::vector<Located<std::string>>& texts) {
    for (const Located<std::string>& text : texts) {
      const auto name = ShellVariableIn(text.value);
      if (!name) continue;
      std::string warning = fmt::format(
          "{}: ${} stays as it is written, since no shell reads it: {{env:{}}} is what the host "
          "has",
          text.where.key, *name, *name);
      auto& warnings = plan_.warnings;
      if (std::ranges::find(warnings, warning) == warnings.end()) {
        warnings.push_back(std::move(warning));
      }
    }
  }

  // As far as it is known here.
  [[nodiscard]] std::string Fill(const protocol::Text& text) const {
    return protocol::Fill(text, {addresses_, plan_.common, [](const std::string&) { return ""; }});
  }

  protocol::Text Expand(const Located<std::string>& text, const TaskOnHost& task,
                        size_t name_length) {
    protocol::Text expanded = placeholders_.Expand(text, task);
    const size_t length = name_length + Fill(expanded).size() + 1;
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
