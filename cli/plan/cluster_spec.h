// The cluster spec of a plan's tasks.
#pragma once

#include <functional>
#include <string>

#include "cli/plan/plan.h"

namespace tfdist::cli {

// Every task that has a port, under its type and at its index; `address_of` says what stands there.
ClusterSpec MakeClusterSpec(const Plan& plan,
                            const std::function<std::string(const TaskOnHost&)>& address_of);

}  // namespace tfdist::cli
