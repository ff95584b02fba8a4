#include "wire/task_look.h"

#include <algorithm>
#include <utility>

#include "base/json_fields.h"

namespace tfdist::protocol {
namespace {

constexpr size_t kMostTasks = 1024;
constexpr size_t kMostPorts = 64;
constexpr size_t kLongestName = 256;

void Cut(std::string& text, size_t size) { text.resize(std::min(text.size(), size)); }

template <typename T>
void Cut(std::vector<T>& list, size_t size) {
  if (list.size() > size) list.resize(size);
}

}  // namespace

TFDIST_JSON_FIELDS(GpuUse, index, percent, used_bytes, total_bytes)
TFDIST_JSON_FIELDS(TaskConnection, local, remote, half_open, unread_bytes)
TFDIST_JSON_FIELDS(HostLook, slot, tasks)

void to_json(Json& json, const LookRequest& value) {
  json = {{"deep", value.deep}, {"stacks", value.stacks}, {"usage", value.usage}};
}

void from_json(const Json& json, LookRequest& value) {
  json.at("deep").get_to(value.deep);
  json.at("stacks").get_to(value.stacks);
  value.usage = json.value("usage", false);  // of an earlier tfdist
}

void to_json(Json& json, const TaskLook& value) {
  json = {{"task", value.task},
          {"silent_ms", value.silent_ms},
          {"state", value.state},
          {"processes", value.processes},
          {"cpu_percent", value.cpu_percent},
          {"memory_bytes", value.memory_bytes},
          {"gpus", value.gpus},
          {"ports", value.ports},
          {"listens", value.listens},
          {"connections", value.connections},
          {"stack", Bytes{value.stack}}};
}

void from_json(const Json& json, TaskLook& value) {
  json.at("task").get_to(value.task);
  json.at("silent_ms").get_to(value.silent_ms);
  json.at("state").get_to(value.state);
  json.at("processes").get_to(value.processes);
  json.at("cpu_percent").get_to(value.cpu_percent);
  // An earlier agent does not tell them.
  value.memory_bytes = json.value("memory_bytes", uint64_t{0});
  value.gpus = json.value("gpus", std::vector<GpuUse>());
  json.at("ports").get_to(value.ports);
  json.at("listens").get_to(value.listens);
  json.at("connections").get_to(value.connections);
  value.stack = json.at("stack").get<Bytes>().value;
}

HostLook Bounded(HostLook look, int slot) {
  look.slot = slot;
  Cut(look.tasks, kMostTasks);
  for (TaskLook& task : look.tasks) {
    Cut(task.task, kLongestName);
    Cut(task.state, 1);
    Cut(task.stack, kMostStackBytes);
    Cut(task.ports, kMostPorts);
    Cut(task.listens, kMostPorts);
    Cut(task.gpus, kMostGpusUsed);
    Cut(task.connections, kMostConnections);
    for (TaskConnection& connection : task.connections) {
      Cut(connection.local, kLongestName);
      Cut(connection.remote, kLongestName);
    }
  }
  return look;
}

}  // namespace tfdist::protocol
