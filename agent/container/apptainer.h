// Tasks in containers of apptainer, which has no daemon: what it runs are plain descendants of the task, with the host's pids.
// Its command line has run against a stand-in only (tests/support/apptainer).
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "agent/container/container_run.h"

namespace tfdist::agent {

// Of variables that a container is to have, in apptainer's own environment. Source: apptainer's "Environment and Metadata".
inline constexpr std::string_view kApptainerEnvPrefix = "APPTAINERENV_";

// The argv of the container. Each option is one word.
std::vector<std::string> ApptainerCommand(const ContainerRun& run);
// The same, with `program` in the place of the task's.
std::vector<std::string> ApptainerTrial(const ContainerRun& run,
                                        const std::filesystem::path& program);
// What apptainer's own environment must have: the task's variables, each by a name of apptainer's, and the job's cookie.
std::vector<std::string> ApptainerEnv(const std::vector<std::string>& env);

// Runs `words` in the image of a task's `argv`, with the same folders.
std::vector<std::string> ApptainerVisit(const std::vector<std::string>& argv,
                                        const std::vector<std::string>& words);

}  // namespace tfdist::agent
