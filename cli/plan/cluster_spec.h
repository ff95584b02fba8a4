// The cluster spec of a plan's tasks.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cli/plan/plan.h"

namespace tfdist::cli {

// Needs plan.hosts, and the tasks' ids, slots and ports.
ClusterSpec MakeClusterSpec(const Plan& plan);

// The cluster spec as JSON, the value of "cluster" in TF_CONFIG, is the common text of this name.
inline constexpr std::string_view kClusterText = "cluster";

// What the texts of all tasks share, with addresses left open: the cluster spec; "worker_hosts" and its like, the
// addresses of a task type with commas between; "worker_hostnames", the same without ports. Of a ps or worker that the
// job does not have the lists are empty.
protocol::CommonTexts MakeCommonTexts(const std::vector<TaskOnHost>& tasks);

}  // namespace tfdist::cli
