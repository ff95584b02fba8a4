#include "cli/render/settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/text.h"
#include "cli/plan/describe.h"
#include "cli/plan/launch_variables.h"
#include "cli/render/filling.h"
#include "cli/render/quote.h"
#include "job/plan.h"

namespace tfdist::cli {
namespace {

std::string Duration(int64_t ms) { return DurationText(std::chrono::milliseconds(ms)); }

// "1GiB", "1500B".
std::string SizeAsWritten(int64_t bytes) {
  constexpr int64_t kStep = 1024;
  std::string_view unit = "B";
  for (const std::string_view larger : {"KiB", "MiB", "GiB", "TiB"}) {
    if (bytes == 0 || bytes % kStep != 0) break;
    bytes /= kStep;
    unit = larger;
  }
  return fmt::format("{}{}", bytes, unit);
}

// Tells two values apart without showing either.
std::string HashOfValue(const std::string& value) {
  constexpr size_t kShownDigits = 8;
  return "sha256:" + Sha256Hex(value).substr(0, kShownDigits);
}

// The user's own variables may hold secrets; those of tfdist do not.
bool IsOurs(std::string_view name) {
  return name == "TF_CONFIG" || name == "CUDA_DEVICE_ORDER" || name == "CUDA_VISIBLE_DEVICES" ||
         name == "PYTHONUNBUFFERED" || IsLaunchVariable(name);
}

std::string RestartText(const protocol::RestartRule& rule) {
  std::string text(NameOf(rule.policy));
  if (rule.worked_after_ms != 0) text += " (default)";
  if (rule.policy == protocol::RestartPolicy::kNever) return text;
  text += fmt::format(", limit {}", rule.limit);
  if (rule.window_ms != 0) text += " within " + Duration(rule.window_ms);
  return text + ", backoff " + Duration(rule.backoff_ms);
}

using Variables = std::map<std::string, std::string>;

std::optional<std::string> Take(Variables& variables, const std::string& name) {
  const auto found = variables.extract(name);
  return found ? std::optional(found.mapped()) : std::nullopt;
}

// What `venv` has made of it: as plan/task_commands.cc has it.
void TakeEnvironment(Variables& variables, Settings& settings) {
  const auto folder = variables.find("VIRTUAL_ENV");
  const auto path = variables.find("PATH");
  if (folder == variables.end() || path == variables.end()) return;
  const std::string first = folder->second + "/bin:";
  if (!path->second.starts_with(first)) return;
  path->second.erase(0, first.size());
  if (path->second == "${PATH}") variables.erase(path);
  if (variables["PYTHONHOME"].empty()) variables.erase("PYTHONHOME");
  settings["venv"] = *Take(variables, "VIRTUAL_ENV");
}

void AddVariables(const Plan& plan, const TaskOnHost& task, const Filling& filling,
                  Settings& settings) {
  Variables variables;
  for (const auto& [name, text] : EnvOn(plan, task, task.slot)) {
    variables[name] = filling.Fill(text);
  }
  TakeEnvironment(variables, settings);
  Take(variables, "CUDA_VISIBLE_DEVICES");  // `gpus` says it
  for (const auto& [name, value] : variables) settings["env." + name] = ValueOrHash(name, value);
}

void AddContainer(const protocol::ContainerDescription& container, const Filling& filling,
                  Settings& settings) {
  settings["image"] = container.image;
  settings["engine"] = protocol::Json(container.engine).get<std::string>();
  if (container.shm_size_bytes != 0) settings["shm_size"] = SizeAsWritten(container.shm_size_bytes);
  if (container.entrypoint) settings["entrypoint"] = *container.entrypoint;
  for (const protocol::Mount& mount : container.mounts) {
    settings["mounts " + mount.target] =
        filling.Fill(mount.source) + (mount.read_only ? ", read only" : "");
  }
}

std::string PlaceOf(const Plan& plan, const DataPlan& data) {
  if (!data.source.empty()) return fmt::format("{}, sent from here", data.source.string());
  return fmt::format("{} on the hosts", Filling(plan).Fill(data.path));
}

std::string_view Word(protocol::OnHostLost rule) {
  return rule == protocol::OnHostLost::kWait ? "wait" : "fail";
}

std::string DecidingTasks(const Plan& plan) {
  std::vector<std::string> tasks;
  for (const TaskOnHost& task : plan.tasks) {
    if (task.decides) tasks.push_back(ToString(task.id));
  }
  return fmt::format("{}", fmt::join(tasks, " and "));
}

void AddHosts(const Plan& plan, Settings& settings) {
  const Filling filling(plan);
  std::vector<std::string> spares;
  for (const HostPlan& host : plan.hosts) {
    if (host.address != host.name) settings["address of " + host.name] = host.address;
    if (!host.spare) continue;
    spares.push_back(host.name);
    for (const auto& [name, text] : host.env)
      settings[fmt::format("env.{} on {}", name, host.name)] =
          ValueOrHash(name, filling.Fill(text));
  }
  if (!spares.empty()) settings["spare hosts"] = fmt::format("{}", fmt::join(spares, ", "));
}

std::string SignalText(int number) {
  const char* name = sigabbrev_np(number);
  return name == nullptr ? std::to_string(number) : fmt::format("SIG{}", name);
}

void AddDeadline(const Plan& plan, Settings& settings) {
  if (plan.deadline_ms == 0) return;
  settings["deadline"] = Duration(plan.deadline_ms);
  settings["on_deadline"] = plan.deadline_succeeds ? "succeed" : "fail";
  if (plan.warning_ms == 0) return;
  settings["deadline_warning"] = Duration(plan.warning_ms);
  settings["deadline_signal"] = SignalText(plan.warning_signal);
}

}  // namespace

std::string GpuText(const TaskOnHost& task) {
  if (task.gpu_share) return kDecidedOnTheHost;
  if (!task.gpus) return "all";
  return task.gpus->empty() ? "none" : fmt::format("{}", fmt::join(*task.gpus, ","));
}

std::string ValueOrHash(const std::string& name, const std::string& value) {
  return IsOurs(name) ? value : HashOfValue(value);
}

std::string SetUpText(const Plan& plan) {
  const Filling filling(plan);
  std::vector<std::string> words;
  for (const auto& word : plan.set_up->argv) words.push_back(filling.Word(word, ShellWord));
  std::string text = fmt::format("{}", fmt::join(words, " "));
  const auto& inputs = plan.set_up->inputs;
  if (!inputs.empty()) text += fmt::format(" (inputs {})", fmt::join(inputs, ", "));
  return text;
}

std::string DataText(const Plan& plan, const DataPlan& data) {
  return fmt::format("{}: {}", data.name, PlaceOf(plan, data));
}

Settings SettingsOf(const Plan& plan, const TaskOnHost& task) {
  const Filling filling(plan);
  Settings settings = {{"host", plan.hosts.at(static_cast<size_t>(task.slot)).name},
                       {"gpus", GpuText(task)},
                       {"restart", RestartText(task.restart)},
                       {"output", task.merged_output ? "merged" : "separate"},
                       {"log_limit", SizeAsWritten(task.log_limit_bytes)},
                       {"grace", Duration(task.grace_ms)}};
  if (task.container) AddContainer(*task.container, filling, settings);
  if (task.port != 0) settings["port"] = std::to_string(task.port);
  if (!task.cwd.parts.empty()) settings["cwd"] = filling.Fill(task.cwd);
  if (!task.conda.parts.empty()) settings["conda"] = filling.Fill(task.conda);
  for (const auto& [name, port] : task.more_ports) {
    settings["more_ports." + name] = std::to_string(port);
  }
  AddVariables(plan, task, filling, settings);
  return settings;
}

Settings SettingsOf(const Plan& plan) {
  Settings settings = {{"layout", plan.layout},
                       {"done", DecidingTasks(plan)},
                       {"restart.on_host_lost", std::string(Word(plan.on_host_lost))},
                       {"restart.host_lost", Duration(plan.host_lost_ms)},
                       {"restart.exclusive", plan.exclusive ? "true" : "false"},
                       {"restart.orphan_timeout", Duration(plan.orphan_timeout_ms)}};
  AddDeadline(plan, settings);
  // The end of a master's job leaves the others time without being asked (plan.rest_timeout_ms).
  const int64_t finish_ms = std::max(plan.finish_timeout_ms, plan.rest_timeout_ms);
  if (finish_ms != 0) settings["finish_timeout"] = Duration(finish_ms);
  if (plan.set_up) settings["setup"] = SetUpText(plan);
  for (const DataPlan& data : plan.data) settings["data." + data.name] = PlaceOf(plan, data);
  AddHosts(plan, settings);
  return settings;
}

}  // namespace tfdist::cli
