#include "cli/render/render.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/failures.h"
#include "base/text.h"
#include "cli/plan/containers.h"
#include "cli/plan/describe.h"
#include "cli/plan/launch_variables.h"
#include "cli/plan/tensorflow_server.h"
#include "cli/render/filling.h"
#include "cli/render/quote.h"
#include "cli/render/settings.h"
#include "cli/render/table.h"

namespace tfdist::cli {
namespace {

// Keeps the order in which keys are added.
using Json = nlohmann::ordered_json;

std::vector<std::string> FillAll(const std::vector<protocol::Text>& texts, const Filling& filling) {
  std::vector<std::string> filled;
  filled.reserve(texts.size());
  for (const protocol::Text& text : texts) filled.push_back(filling.Fill(text));
  return filled;
}

const HostPlan& HostOf(const Plan& plan, const TaskOnHost& task) {
  return plan.hosts.at(static_cast<size_t>(task.slot));
}

std::string AddressOf(const Plan& plan, const TaskOnHost& task) {
  return ToString(HostPort{HostOf(plan, task).address, task.port});
}

std::string CommandLine(const TaskOnHost& task, const Filling& filling) {
  const size_t shown = task.argv.size() - (RunsTensorFlowServer(task) ? 1 : 0);
  std::vector<std::string> words;
  for (size_t at = 0; at < shown; ++at) words.push_back(filling.Word(task.argv[at], ShellWord));
  if (shown < task.argv.size()) words.emplace_back(kTensorFlowServer);
  return fmt::format("{}", fmt::join(words, " "));
}

// A path of the host, not of the work folder: "/data", "~/run", "{env:DATA}/run".
bool IsOfHost(const protocol::Text& folder) {
  if (folder.parts.empty()) return false;
  const auto* literal = std::get_if<std::string>(&folder.parts[0]);
  return literal == nullptr ? std::holds_alternative<protocol::HostVariable>(folder.parts[0])
                            : literal->starts_with('/');
}

std::string StartFolder(const TaskOnHost& task, const Filling& filling) {
  std::string cwd = filling.Fill(task.cwd);
  if (cwd.starts_with('<') || IsOfHost(task.cwd)) return cwd;
  return cwd.empty() ? "<jobdir>/work" : "<jobdir>/work/" + cwd;
}

// As one would write it in a shell.
std::string CommandLineOf(const TaskOnHost& task, const Filling& filling) {
  std::string command = CommandLine(task, filling);
  if (task.cwd.parts.empty()) return command;
  return fmt::format("cd {} && {}", filling.Word(task.cwd, ShellWord), command);
}

std::vector<std::string> Row(const Plan& plan, const TaskOnHost& task, const Filling& filling) {
  return {ToString(task.id),
          HostOf(plan, task).name,
          task.port == 0 ? "-" : AddressOf(plan, task),
          task.chief ? "yes" : "-",
          GpuText(task),
          CommandLineOf(task, filling)};
}

Json GpusJson(const TaskOnHost& task) {
  if (task.gpu_share) return kDecidedOnTheHost;
  if (!task.gpus) return nullptr;
  Json gpus = Json::array();
  for (const std::string& gpu : *task.gpus) {
    const bool is_number = gpu.find_first_not_of("0123456789") == gpu.npos;
    gpus.push_back(is_number ? Json(std::stoi(gpu)) : Json(gpu));
  }
  return gpus;
}

Json TaskJson(const Plan& plan, const TaskOnHost& task, const Filling& filling) {
  const protocol::TaskDescription description = DescribeTask(plan, task);
  Json json;
  json["task"] = ToString(task.id);
  json["type"] = task.id.type;
  json["index"] = task.id.index;
  json["host"] = HostOf(plan, task).name;
  json["address"] = task.port == 0 ? Json(nullptr) : Json(AddressOf(plan, task));
  json["more_ports"] = task.more_ports;
  json["chief"] = task.chief;
  json["argv"] = FillAll(description.argv, filling);
  json["cwd"] = StartFolder(task, filling);
  json["env"] = Json::object();
  for (const auto& [name, text] : description.env) {
    json["env"][name] = ValueOrHash(name, filling.Fill(text));
  }
  json["gpus"] = GpusJson(task);
  json["image"] = nullptr;
  json["engine"] = nullptr;
  if (task.container) {
    json["image"] = task.container->image;
    json["engine"] = protocol::Json(task.container->engine).get<std::string>();
  }
  return json;
}

const TaskOnHost& FindTask(const Plan& plan, std::string_view name) {
  const auto found =
      std::find_if(plan.tasks.begin(), plan.tasks.end(),
                   [&](const TaskOnHost& task) { return ToString(task.id) == name; });
  if (found != plan.tasks.end()) return *found;
  std::vector<std::string> names;
  for (const TaskOnHost& task : plan.tasks) names.push_back(ToString(task.id));
  throw UsageError(Phase::kUsage, fmt::format("the job has no task '{}'", name),
                   fmt::format("one of: {}", fmt::join(names, " ")));
}

std::string ExportLine(const std::string& name, const std::string& word) {
  if (IsShellName(name)) return fmt::format("export {}={}\n", name, word);
  return fmt::format("# sh cannot set a variable of this name: {}\n", ShellWord(name));
}

// What the agent adds, as far as it is known before the job starts (agent/tasks/task_spec.cc).
std::string OwnVariables(const Plan& plan, const TaskOnHost& task) {
  return ExportLine("TFDIST_JOB", ShellQuoted(plan.name)) +
         ExportLine("TFDIST_TASK", ShellQuoted(ToString(task.id))) +
         ExportLine("TFDIST_HOST", ShellQuoted(HostOf(plan, task).name)) +
         ExportLine("TFDIST_ATTEMPT", "'1'") +
         "# set on the host: TFDIST_JOB_ID TFDIST_LOG_DIR TFDIST_SECRET_FILE TFDIST_COOKIE\n";
}

// The parts of [ssh] that say which program and which files of this machine a connection uses.
std::vector<std::pair<std::string, std::string>> SshParts(const SshOptions& ssh) {
  std::vector<std::pair<std::string, std::string>> parts;
  if (ssh.transport != "auto") parts.emplace_back("transport", ssh.transport);
  if (!ssh.config.empty()) parts.emplace_back("config", ssh.config.string());
  if (!ssh.identity_file.empty()) parts.emplace_back("identity_file", ssh.identity_file);
  return parts;
}

std::string SshLines(const SshOptions& ssh) {
  std::string lines;
  for (const auto& [key, value] : SshParts(ssh)) lines += fmt::format("ssh: {} {}\n", key, value);
  if (!ssh.config.empty()) {
    lines += "ssh: commands of that configuration (ProxyCommand, Match exec) run on this machine\n";
  }
  return lines;
}

// "image: train:3 (auto): ps:0 worker:0 worker:1"
std::string ImageLines(const Plan& plan) {
  std::vector<std::pair<std::string, std::vector<std::string>>> images;
  for (const TaskOnHost& task : plan.tasks) {
    if (!task.container) continue;
    const std::string image = ImageText(plan, task);
    auto known = std::ranges::find(images, image, &decltype(images)::value_type::first);
    if (known == images.end()) known = images.insert(images.end(), {image, {}});
    known->second.push_back(ToString(task.id));
  }
  std::string lines;
  for (const auto& [image, tasks] : images) {
    lines += fmt::format("image: {}: {}\n", image, fmt::join(tasks, " "));
  }
  return lines;
}

}  // namespace

std::string RenderTable(const Plan& plan, size_t columns) {
  const Filling filling(plan);
  std::vector<std::vector<std::string>> rows = {
      {"TASK", "HOST", "ADDRESS", "CHIEF", "GPUS", "COMMAND"}};
  for (const TaskOnHost& task : plan.tasks) rows.push_back(Row(plan, task, filling));
  std::string text = AlignColumns(rows, columns);
  for (const HostPlan& host : plan.hosts) {
    if (host.spare) text += fmt::format("spare host: {}\n", host.name);
  }
  if (plan.set_up) text += fmt::format("set-up: {}\n", SetUpText(plan));
  for (const DataPlan& data : plan.data) {
    text += fmt::format("data: {}\n", DataText(plan, data));
  }
  return text + ImageLines(plan) + SshLines(plan.ssh);
}

std::string CommandText(const Plan& plan, const TaskOnHost& task) {
  return CommandLineOf(task, Filling(plan));
}

std::string FolderOfHost(const Plan& plan, const TaskOnHost& task) {
  const bool is_of_host = IsOfHost(task.cwd) && FolderOfImage(task).empty();
  return is_of_host ? Filling(plan).Fill(task.cwd) : "";
}

std::string RenderEnv(const Plan& plan, std::string_view task) {
  const TaskOnHost& found = FindTask(plan, task);
  const Filling filling(plan);
  std::string lines;
  for (const auto& [name, text] : DescribeTask(plan, found).env) {
    lines += ExportLine(name, filling.Word(text, ShellQuoted));
  }
  lines += OwnVariables(plan, found);
  if (!found.conda.parts.empty()) {
    lines += fmt::format("conda activate {}\n", filling.Word(found.conda, ShellWord));
  }
  if (!found.gpus) lines += "unset CUDA_VISIBLE_DEVICES\n";
  if (found.gpu_share) lines += "# decided on the host, if it has GPUs: CUDA_VISIBLE_DEVICES\n";
  return lines;
}

std::string RenderJson(const Plan& plan) {
  Json json;
  json["name"] = plan.name;
  json["layout"] = plan.layout;
  json["ssh"] = Json::object();
  for (const auto& [key, value] : SshParts(plan.ssh)) json["ssh"][key] = value;
  const Filling filling(plan);
  json["set_up"] = nullptr;
  if (plan.set_up) {
    json["set_up"] = {{"argv", FillAll(plan.set_up->argv, filling)},
                      {"inputs", plan.set_up->inputs},
                      {"timeout_ms", plan.set_up->timeout_ms}};
  }
  json["data"] = Json::object();
  for (const DataPlan& data : plan.data) {
    const bool is_sent = !data.source.empty();
    json["data"][data.name] = {{"path", is_sent ? Json() : Json(filling.Fill(data.path))},
                               {"source", is_sent ? Json(data.source.string()) : Json()}};
  }
  json["tasks"] = Json::array();
  for (const TaskOnHost& task : plan.tasks) {
    json["tasks"].push_back(TaskJson(plan, task, filling));
  }
  return json.dump(2, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

}  // namespace tfdist::cli
