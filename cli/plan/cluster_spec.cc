#include "cli/plan/cluster_spec.h"

#include <map>

namespace tfdist::cli {

ClusterSpec MakeClusterSpec(const Plan& plan,
                            const std::function<std::string(const TaskOnHost&)>& address_of) {
  std::map<TaskId, const TaskOnHost*> in_order;
  for (const TaskOnHost& task : plan.tasks) {
    if (task.port != 0) in_order[task.id] = &task;
  }
  ClusterSpec cluster;
  for (const auto& [id, task] : in_order) cluster.tasks[id.type].push_back(address_of(*task));
  return cluster;
}

}  // namespace tfdist::cli
