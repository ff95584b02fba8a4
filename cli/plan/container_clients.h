// Tasks that hand their work to a daemon: no process of what it runs for them descends from the task.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/plan/plan.h"

namespace tfdist::cli {

// Which programs of that kind the plan's tasks run, each once: "docker". Looked for in commands, in what they give a
// shell, and in scripts of the workdir that they run, however deep. podman without a daemon is none: its containers descend from the
// task.
std::vector<std::string> ContainerClientsOf(const Plan& plan);

// "what docker runs for the job's tasks ...": that it cannot be seen, and what shows it.
std::string UnseenWorkOf(std::string_view client);

// "may be left: what docker run (pid 12) of worker:0 began; ...", of a call that a census names (job/events.h).
std::string MayBeLeft(std::string_view call);

// Adds a warning for each.
void WarnOfContainerClients(Plan& plan);

}  // namespace tfdist::cli
