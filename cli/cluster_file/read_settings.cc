#include "cli/cluster_file/read_settings.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/cluster_file/known_keys.h"
#include "cli/cluster_file/read_container.h"
#include "cli/cluster_file/read_env.h"
#include "cli/cluster_file/read_hosts.h"

namespace tfdist::cli {
namespace {

constexpr int kMostGpus = 1024;

constexpr std::string_view kCommandForm = "a list of the program and its arguments";
constexpr std::string_view kOtherGpus = "\"auto\", a list of GPUs, or ";
constexpr std::string_view kOutputs[] = {"merged", "separate"};

// "python3 train.py" as the list that was meant, where that is plain to see.
std::string CommandHint(const std::string& text) {
  if (text.find_first_of("\"'\\$`|&;<>*?\n") != std::string::npos) {
    return "no shell runs it; for one, write [\"sh\", \"-c\", \"...\"]";
  }
  std::string words;
  for (size_t begin = text.find_first_not_of(' '); begin != std::string::npos;) {
    const size_t end = text.find(' ', begin);
    words += fmt::format("{}\"{}\"", words.empty() ? "" : ", ", text.substr(begin, end - begin));
    begin = text.find_first_not_of(' ', end);
  }
  return fmt::format("no shell runs it, so write command = [{}]", words);
}

std::vector<std::string> ReadEnvFrom(const Field& field, Problems& problems) {
  std::vector<std::string> names;
  const auto elements = ReadArray(field, "a list of names of variables", problems);
  if (!elements) return names;
  for (const Field& element : *elements) {
    const auto name = ReadText(element, problems);
    const std::string why = name ? WhyNotEnv(*name) : "";
    if (!why.empty()) problems.Add(element.where, why);
    if (name && why.empty()) names.push_back(*name);
  }
  return names;
}

std::optional<GpuRequest> ReadGpuRequest(const Field& field, Problems& problems) {
  GpuRequest request;
  if (const auto* text = std::get_if<std::string>(&field.node->value); text && *text == "auto") {
    return request;
  }
  if (std::holds_alternative<int64_t>(field.node->value)) {
    const auto count = ReadNumber(field, 0, kMostGpus, problems, kOtherGpus);
    if (!count) return std::nullopt;
    request.kind = GpuRequest::Kind::kCount;
    request.count = static_cast<int>(*count);
    return request;
  }
  if (std::holds_alternative<TomlNode::Array>(field.node->value)) {
    auto list = ReadGpuList(field, false, problems);
    if (!list) return std::nullopt;
    request.kind = GpuRequest::Kind::kList;
    request.list = *std::move(list);
    return request;
  }
  (void)ReadNumber(field, 0, kMostGpus, problems, kOtherGpus);
  return std::nullopt;
}

}  // namespace

std::optional<std::vector<Located<std::string>>> ReadCommand(const Field& field,
                                                             Problems& problems) {
  if (const auto* text = std::get_if<std::string>(&field.node->value)) {
    ReportForm(field, kCommandForm, problems, CommandHint(*text));
    return std::nullopt;
  }
  const auto elements = ReadArray(field, kCommandForm, problems);
  if (!elements) return std::nullopt;
  std::vector<Located<std::string>> command;
  for (const Field& element : *elements) {
    const auto text = ReadText(element, problems);
    if (text) command.push_back({*text, element.where});
  }
  if (command.size() < elements->size()) return std::nullopt;
  if (!command.empty() && !command.front().value.empty()) return command;
  problems.Add(field.where, "names no program", "write command = [\"python3\", \"train.py\"]");
  return std::nullopt;
}

TaskSettings ReadSettings(const TableReader& table, Problems& problems) {
  TaskSettings settings;
  settings.command_said = !table.Lacks("command");
  if (const auto field = table.Find("command")) settings.command = ReadCommand(*field, problems);
  settings.cwd = table.Line("cwd");
  settings.venv = table.Line("venv");
  settings.conda = table.Line("conda");
  if (settings.venv && settings.conda) {
    problems.Add(settings.conda->where, "is not possible beside venv", "leave one of them out");
  }
  if (const auto field = table.Find("env")) settings.env = ReadEnv(*field, problems);
  if (const auto field = table.Find("env_from")) {
    settings.env_from = ReadEnvFrom(*field, problems);
  }
  if (const auto field = table.Find("gpus")) {
    if (const auto gpus = ReadGpuRequest(*field, problems)) settings.gpus = {*gpus, field->where};
  }
  if (const auto output = table.Choice("output", kOutputs)) {
    settings.merged_output = output->value == "merged";
  }
  if (const auto grace = table.DurationMs("grace")) settings.grace_ms = grace->value;
  if (const auto limit = table.SizeBytes("log_limit")) settings.log_limit_bytes = limit->value;
  settings.container = ReadContainer(table, problems);
  return settings;
}

bool SaysAuto(const Field& field) {
  const auto* text = std::get_if<std::string>(&field.node->value);
  return text != nullptr && *text == "auto";
}

std::optional<Located<PortRequest>> ReadPorts(const Field& field, Problems& problems) {
  Located<PortRequest> ports{{}, field.where};
  ports.value.any = SaysAuto(field);
  if (ports.value.any) return ports;
  if (!std::holds_alternative<TomlNode::Array>(field.node->value)) {
    const auto base = ReadNumber(field, 1, 65535, problems, "\"auto\", a list of ports, or ");
    if (!base) return std::nullopt;
    ports.value.base = static_cast<int>(*base);
    return ports;
  }
  const auto elements = ReadArray(field, "a list of ports", problems);
  for (const Field& element : *elements) {
    const auto port = ReadNumber(element, 1, 65535, problems);
    if (!port) return std::nullopt;
    auto& list = ports.value.list;
    if (std::find(list.begin(), list.end(), *port) != list.end()) {
      problems.Add(element.where, fmt::format("port {} stands here twice", *port));
      return std::nullopt;
    }
    list.push_back(static_cast<int>(*port));
  }
  if (!ports.value.list.empty()) return ports;
  problems.Add(field.where, "expected a port, or a list of at least one");
  return std::nullopt;
}

}  // namespace tfdist::cli
