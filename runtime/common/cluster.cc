#include "runtime/common/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "base/error.h"

namespace tfdist::runtime {
namespace {

void AddTasks(const ClusterSpec& cluster, const std::string& type, std::vector<TaskId>& tasks) {
  const auto found = cluster.tasks.find(type);
  if (found == cluster.tasks.end()) return;
  for (size_t i = 0; i < found->second.size(); ++i) tasks.push_back({type, static_cast<int>(i)});
}

}  // namespace

std::vector<TaskId> TrainersOf(const ClusterSpec& cluster) {
  std::vector<TaskId> trainers;
  for (const char* type : {"chief", "master", "worker"}) AddTasks(cluster, type, trainers);
  return trainers;
}

size_t TrainerNumber(const ClusterSpec& cluster, const TaskId& trainer) {
  const std::vector<TaskId> trainers = TrainersOf(cluster);
  return static_cast<size_t>(std::find(trainers.begin(), trainers.end(), trainer) -
                             trainers.begin());
}

std::vector<TaskId> ServersOf(const ClusterSpec& cluster) {
  std::vector<TaskId> servers;
  AddTasks(cluster, "ps", servers);
  return servers;
}

HostPort AddressOf(const ClusterSpec& cluster, const TaskId& task) {
  return ParseHostPort(cluster.tasks.at(task.type).at(static_cast<size_t>(task.index))).value();
}

void CheckServerThreads(size_t threads) {
  if (threads >= 1 && threads <= kMaxServerThreads) return;
  throw Error(Phase::kUsage,
              fmt::format("a server has 1 to {} threads, not {}", kMaxServerThreads, threads));
}

}  // namespace tfdist::runtime
