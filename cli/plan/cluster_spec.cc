#include "cli/plan/cluster_spec.h"

#include <fmt/format.h>

#include <utility>

namespace tfdist::cli {
namespace {

using protocol::Text;

using ByType = std::map<std::string, std::vector<const TaskOnHost*>>;

// At their indices.
ByType TasksByType(const std::vector<TaskOnHost>& tasks) {
  std::map<TaskId, const TaskOnHost*> in_order;
  for (const TaskOnHost& task : tasks) in_order[task.id] = &task;
  ByType by_type;
  for (const auto& [id, task] : in_order) by_type[id.type].push_back(task);
  return by_type;
}

// Tasks of a type have all a port, or none.
ByType TasksWithPorts(const std::vector<TaskOnHost>& tasks) {
  ByType by_type = TasksByType(tasks);
  std::erase_if(by_type, [](const auto& of_type) { return of_type.second.front()->port == 0; });
  return by_type;
}

// The addresses of `tasks` with `between` them.
void Append(const std::vector<const TaskOnHost*>& tasks, std::string_view between,
            std::string& literal, Text& text) {
  for (size_t at = 0; at < tasks.size(); ++at) {
    if (at > 0) literal += between;
    text.parts.emplace_back(std::exchange(literal, {}));
    text.parts.emplace_back(protocol::SlotAddress{tasks[at]->slot, true});
    literal = fmt::format(":{}", tasks[at]->port);
  }
}

Text HostNames(const std::vector<const TaskOnHost*>& tasks) {
  Text names;
  for (const TaskOnHost* task : tasks) {
    if (!names.parts.empty()) names.parts.emplace_back(std::string(","));
    names.parts.emplace_back(protocol::SlotAddress{task->slot, false});
  }
  return names;
}

}  // namespace

ClusterSpec MakeClusterSpec(const Plan& plan) {
  ClusterSpec cluster;
  for (const auto& [type, tasks] : TasksWithPorts(plan.tasks)) {
    for (const TaskOnHost* task : tasks) {
      const std::string& address = plan.hosts[static_cast<size_t>(task->slot)].address;
      cluster.tasks[type].push_back(ToString(HostPort{address, task->port}));
    }
  }
  return cluster;
}

protocol::CommonTexts MakeCommonTexts(const std::vector<TaskOnHost>& tasks) {
  // A program that asks for both may run where there is one kind only.
  protocol::CommonTexts common = {
      {"ps_hosts", {}}, {"worker_hosts", {}}, {"ps_hostnames", {}}, {"worker_hostnames", {}}};
  for (const auto& [type, of_type] : TasksByType(tasks)) {
    common[type + "_hostnames"] = HostNames(of_type);
  }
  Text& cluster = common[std::string(kClusterText)];
  std::string json = "{";
  for (const auto& [type, of_type] : TasksWithPorts(tasks)) {
    json += fmt::format(R"({}"{}":[")", json == "{" ? "" : ",", type);
    Append(of_type, R"(",")", json, cluster);
    json += R"("])";

    std::string list;
    Text& hosts = common[type + "_hosts"];
    Append(of_type, ",", list, hosts);
    hosts.parts.emplace_back(std::move(list));
  }
  cluster.parts.emplace_back(json + "}");
  return common;
}

}  // namespace tfdist::cli
