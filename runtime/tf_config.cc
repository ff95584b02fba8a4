#include "runtime/tf_config.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace tfdist {
namespace {

// Keeps the order in which keys are added, so that the written text has TFJob's order.
using Json = nlohmann::ordered_json;

Error Bad(const std::string& field, const std::string& why) {
  return Error(Phase::kConfig, "TF_CONFIG: " + field + ": " + why);
}

// Locale-free: the C library's isalpha changes with the locale of the user.
bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Digits only: no sign, no blank, nothing behind.
std::optional<int> ParseNumber(std::string_view digits) {
  if (digits.empty() || !std::all_of(digits.begin(), digits.end(), IsDigit)) return std::nullopt;
  int value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc()) return std::nullopt;
  return value;
}

// As `ParseNumber`, and no leading zero, so that one task has one spelling.
std::optional<int> ParseIndex(std::string_view digits) {
  if (digits.size() > 1 && digits.front() == '0') return std::nullopt;
  return ParseNumber(digits);
}

struct HostAndPort {
  std::string_view host;
  std::string_view port;
};

std::optional<HostAndPort> SplitBracketed(std::string_view text) {
  const size_t close = text.find(']');
  if (close == std::string_view::npos || text.substr(close + 1, 1) != ":") return std::nullopt;
  const std::string_view host = text.substr(1, close - 1);
  // gRPC refuses brackets around what is no IPv6 literal.
  if (host.find(':') == std::string_view::npos) return std::nullopt;
  return HostAndPort{host, text.substr(close + 2)};
}

std::optional<HostAndPort> SplitPlain(std::string_view text) {
  const size_t colon = text.find(':');
  // Two colons without brackets: the whole text is a host without a port.
  if (colon == std::string_view::npos || colon != text.rfind(':')) return std::nullopt;
  return HostAndPort{text.substr(0, colon), text.substr(colon + 1)};
}

std::string ReadAddress(const Json& value, const std::string& field) {
  if (!value.is_string()) throw Bad(field, "expected text \"host:port\"");
  auto address = value.get<std::string>();
  if (!ParseHostPort(address)) {
    throw Bad(field, "\"" + address + "\" is not host:port with a port of 1 to 65535");
  }
  return address;
}

// "cluster.ps[1]"
std::string Element(std::string field, std::string_view index) {
  field += '[';
  field += index;
  field += ']';
  return field;
}

std::vector<std::string> ReadList(const Json& list, const std::string& field) {
  std::vector<std::string> addresses;
  for (const Json& entry : list) {
    addresses.push_back(ReadAddress(entry, Element(field, std::to_string(addresses.size()))));
  }
  return addresses;
}

// {"0": address, "1": address}: TensorFlow's sparse form. Ours has no gaps, since position is
// index.
std::vector<std::string> ReadIndexed(const Json& object, const std::string& field) {
  std::map<int, std::string> by_index;
  for (const auto& [key, entry] : object.items()) {
    const std::optional<int> index = ParseIndex(key);
    if (!index) throw Bad(field, "\"" + key + "\" is not a task index");
    by_index[*index] = ReadAddress(entry, Element(field, key));
  }
  std::vector<std::string> addresses;
  for (auto& [index, address] : by_index) {
    if (index != static_cast<int>(addresses.size())) {
      throw Bad(field, "index " + std::to_string(addresses.size()) + " is missing");
    }
    addresses.push_back(std::move(address));
  }
  return addresses;
}

std::vector<std::string> ReadTasks(const Json& value, const std::string& field) {
  if (!value.is_array() && !value.is_object()) {
    throw Bad(field, "expected a list of \"host:port\"");
  }
  // TensorFlow trips over a task type without tasks (ClusterSpec.job_tasks: max() of nothing).
  if (value.empty()) throw Bad(field, "is empty; leave the task type out");
  return value.is_array() ? ReadList(value, field) : ReadIndexed(value, field);
}

ClusterSpec ReadCluster(const Json& config) {
  ClusterSpec cluster;
  const auto found = config.find("cluster");
  if (found == config.end()) return cluster;
  if (!found->is_object()) throw Bad("cluster", "expected an object: task type -> addresses");
  for (const auto& [type, tasks] : found->items()) {
    const std::string field = "cluster." + type;
    if (!IsTaskTypeName(type)) {
      throw Bad(field, "a task type is a letter, then letters, digits and underscores");
    }
    cluster.tasks[type] = ReadTasks(tasks, field);
  }
  if (cluster.tasks.contains("chief") && cluster.tasks.contains("master")) {
    throw Bad("cluster", "\"chief\" and \"master\" are two names of one task; leave one out");
  }
  return cluster;
}

std::string ReadTaskType(const Json& task) {
  const auto type = task.find("type");
  if (type == task.end() || !type->is_string()) throw Bad("task.type", "expected text");
  auto name = type->get<std::string>();
  if (!IsTaskTypeName(name)) throw Bad("task.type", "\"" + name + "\" is not a task type");
  return name;
}

int ReadTaskIndex(const Json& task) {
  const auto index = task.find("index");
  // 2^31 - 1 bounds what an int holds; no list of addresses is that long anyway.
  if (index == task.end() || !index->is_number_integer() || *index < 0 || *index > 0x7fffffff) {
    throw Bad("task.index", "expected a whole number, 0 or more");
  }
  return index->get<int>();
}

TaskId ReadTask(const Json& config) {
  const auto task = config.find("task");
  if (task == config.end() || !task->is_object()) {
    throw Bad("task", "expected {\"type\": ..., \"index\": ...}");
  }
  return TaskId{ReadTaskType(*task), ReadTaskIndex(*task)};
}

void CheckTaskIsInCluster(const TaskId& task, const ClusterSpec& cluster) {
  const auto tasks = cluster.tasks.find(task.type);
  if (tasks == cluster.tasks.end()) {
    if (task.type == "evaluator") return;  // looks on from outside (run_config.py)
    throw Bad("task.type", cluster.tasks.empty()
                               ? "there is no cluster, so no \"" + task.type + "\" in it"
                               : "\"" + task.type + "\" is not in the cluster");
  }
  const size_t count = tasks->second.size();
  if (static_cast<size_t>(task.index) >= count) {
    throw Bad("task.index", ToString(task) + " is not in the cluster, which has " +
                                std::to_string(count) + " of " + task.type);
  }
}

std::string ReadEnvironment(const Json& config) {
  const auto environment = config.find("environment");
  if (environment == config.end()) return "";
  if (!environment->is_string()) throw Bad("environment", "expected text");
  return environment->get<std::string>();
}

}  // namespace

std::string ToString(const TaskId& task) { return task.type + ":" + std::to_string(task.index); }

std::optional<TaskId> ParseTaskId(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const std::string_view type = text.substr(0, colon);
  const std::optional<int> index = ParseIndex(text.substr(colon + 1));
  if (!index || !IsTaskTypeName(type)) return std::nullopt;
  return TaskId{std::string(type), *index};
}

bool IsTaskTypeName(std::string_view name) {
  return !name.empty() && IsLetter(name.front()) &&
         std::all_of(name.begin(), name.end(),
                     [](char c) { return IsLetter(c) || IsDigit(c) || c == '_'; });
}

std::string ToString(const HostPort& address) {
  const bool literal = address.host.find(':') != std::string::npos;
  return (literal ? "[" + address.host + "]" : address.host) + ":" + std::to_string(address.port);
}

std::optional<HostPort> ParseHostPort(std::string_view text) {
  const auto parts = text.starts_with('[') ? SplitBracketed(text) : SplitPlain(text);
  if (!parts || parts->host.empty() || parts->host.find('/') != std::string_view::npos) {
    return std::nullopt;
  }
  const std::optional<int> port = ParseNumber(parts->port);
  if (!port || *port < 1 || *port > 65535) return std::nullopt;
  return HostPort{std::string(parts->host), *port};
}

std::string TfConfig::ToJson() const {
  Json config;
  config["cluster"] = Json::object();
  for (const auto& [type, addresses] : cluster.tasks) config["cluster"][type] = addresses;
  config["task"]["type"] = task.type;
  config["task"]["index"] = task.index;
  if (!environment.empty()) config["environment"] = environment;
  return config.dump();
}

TfConfig TfConfig::FromJson(std::string_view text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) throw Error(Phase::kConfig, "TF_CONFIG is not a JSON object");
  TfConfig config{ReadCluster(json), ReadTask(json), ReadEnvironment(json)};
  CheckTaskIsInCluster(config.task, config.cluster);
  return config;
}

std::optional<TaskId> ChiefOf(const ClusterSpec& cluster) {
  for (const char* type : {"chief", "master", "worker"}) {
    if (cluster.tasks.contains(type)) return TaskId{type, 0};
  }
  return std::nullopt;
}

}  // namespace tfdist
