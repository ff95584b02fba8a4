// What the runtime reads out of a cluster spec beyond TF_CONFIG itself: which tasks train, and
// which is where.
#pragma once

#include <cstddef>
#include <vector>

#include "runtime/tf_config.h"

namespace tfdist::runtime {

// Threads of one server, each with a port of its own.
inline constexpr size_t kMaxServerThreads = 64;

// chief or master first, then the workers: a trainer's position is its number (MultiWorker's group
// ids: chief 0, worker i -> i + number of chiefs).
std::vector<TaskId> TrainersOf(const ClusterSpec& cluster);

// Its position in `TrainersOf`. The task must be one of them.
size_t TrainerNumber(const ClusterSpec& cluster, const TaskId& trainer);

// ps:0, ps:1, ...
std::vector<TaskId> ServersOf(const ClusterSpec& cluster);

// Of a task that is in the cluster.
HostPort AddressOf(const ClusterSpec& cluster, const TaskId& task);

// Throws Error(kUsage) for a number of threads that no server can have.
void CheckServerThreads(size_t threads);

}  // namespace tfdist::runtime
