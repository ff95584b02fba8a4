#include "cli/plan/cluster_spec.h"

#include <fmt/format.h>

#include <utility>

namespace tfdist::cli {
namespace {

using protocol::Text;

// Those that have a port, at their indices.
std::map<std::string, std::vector<const TaskOnHost*>> TasksByType(
    const std::vector<TaskOnHost>& tasks) {
  std::map<TaskId, const TaskOnHost*> in_order;
  for (const TaskOnHost& task : tasks) {
    if (task.port != 0) in_order[task.id] = &task;
  }
  std::map<std::string, std::vector<const TaskOnHost*>> by_type;
  for (const auto& [id, task] : in_order) by_type[id.type].push_back(task);
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

}  // namespace

ClusterSpec MakeClusterSpec(const Plan& plan) {
  ClusterSpec cluster;
  for (const auto& [type, tasks] : TasksByType(plan.tasks)) {
    for (const TaskOnHost* task : tasks) {
      const std::string& address = plan.hosts[static_cast<size_t>(task->slot)].address;
      cluster.tasks[type].push_back(ToString(HostPort{address, task->port}));
    }
  }
  return cluster;
}

protocol::CommonTexts MakeCommonTexts(const std::vector<TaskOnHost>& tasks) {
  // A program that asks for both may run where there is one kind only.
  protocol::CommonTexts common = {{"ps_hosts", {}}, {"worker_hosts", {}}};
  Text& cluster = common[std::string(kClusterText)];
  std::string json = "{";
  for (const auto& [type, of_type] : TasksByType(tasks)) {
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
