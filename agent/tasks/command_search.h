// Whether a task's command can be executed, before anything is started.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "agent/process/run_folder.h"

namespace tfdist::agent {

// Throws Error(kCommand) where the task cannot start in its folder. `brought`: a folder of the host that comes with the job.
void CheckStartFolder(const RunSpec& spec, const std::string& brought);

// Looks for argv[0] as the holder will: in the PATH of the task's own environment, relative to its
// folder; and for the Python environment that is activated for it. The same for each program that this one only runs another
// one by (base/inner_command.h). `is_to_come`: what the job is yet to bring, which is not looked for. Throws
// Error(kCommand) that names the command, the task and where it was looked for.
void CheckCommand(
    const RunSpec& spec,
    const std::function<bool(const RunSpec&)>& is_to_come = [](const RunSpec&) { return false; });

// Why the holder could not execute argv[0]; nullopt where it can.
struct MissingProgram {
  std::string program;
  std::string why;
};
// The first of the command's programs, from `env` or a shell to the innermost (base/inner_command.h), that cannot be executed here.
std::optional<MissingProgram> FindMissingProgram(const RunSpec& spec);

// The last of the command's programs, with its own environment.
RunSpec InnermostSpec(const RunSpec& spec);
// Of a variable; nullopt: it is not set.
std::optional<std::string> ValueOf(const RunSpec& spec, std::string_view name);
// Why nothing can start there; nullopt when something can.
std::optional<std::string> WhyNotEntered(const std::string& folder);

}  // namespace tfdist::agent
