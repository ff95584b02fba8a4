// Tasks that are clients of a daemon: it runs their container, and no process of that is the task's.
#pragma once

#include <string>
#include <vector>

#include "cli/plan/plan.h"

namespace tfdist::cli {

// Which programs of that kind the plan's tasks run, each once: "docker". podman without a daemon is none:
// its containers descend from the task.
std::vector<std::string> ContainerClientsOf(const Plan& plan);

// Adds a warning for each.
void WarnOfContainerClients(Plan& plan);

}  // namespace tfdist::cli
