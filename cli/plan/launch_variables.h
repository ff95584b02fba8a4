// What programs of other frameworks expect of whoever starts them, as torchrun sets it: RANK, WORLD_SIZE, LOCAL_RANK,
// LOCAL_WORLD_SIZE, NODE_RANK, MASTER_ADDR, MASTER_PORT (torch/distributed/run.py).
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/plan/plan.h"

namespace tfdist::cli {

// Those that the task's own variables do not set. None for a task without a rank.
std::vector<std::pair<std::string, protocol::Text>> LaunchVariables(const Plan& plan,
                                                                    const TaskOnHost& task);

bool IsLaunchVariable(std::string_view name);

}  // namespace tfdist::cli
