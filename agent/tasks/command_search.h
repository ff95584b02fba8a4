// Whether a task's command can be executed, before anything is started.
#pragma once

#include <optional>
#include <string>

#include "agent/process/run_folder.h"

namespace tfdist::agent {

// Throws Error(kCommand) where the task cannot start in its folder. `brought`: a folder of the host that comes with the job.
void CheckStartFolder(const RunSpec& spec, const std::string& brought);

// Looks for argv[0] as the holder will: in the PATH of the task's own environment, relative to its
// folder; and for the Python environment that is activated for it. Throws Error(kCommand) that names the command, the task and where it was looked for.
void CheckCommand(const RunSpec& spec);

// Why the holder could not execute argv[0]; nullopt where it can.
std::optional<std::string> WhyNotExecutable(const RunSpec& spec);

}  // namespace tfdist::agent
