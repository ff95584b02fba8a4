// Which ports of a plan a host must be able to connect to.
#pragma once

#include <optional>
#include <vector>

#include "cli/plan/plan.h"
#include "wire/host_check.h"

namespace tfdist::cli {

// Of the ports that are held: every port of a task, for a host that has a task with a port itself;
// the coordinator's, for every other host; its own, where two of its tasks talk to each other. A
// spare host may get any slot's tasks. `ports[i]`: of slot i; nullptr: not known.
std::vector<protocol::Target> TargetsOf(
    const Plan& plan, const std::vector<const std::vector<protocol::PortFact>*>& ports, int slot);

}  // namespace tfdist::cli
