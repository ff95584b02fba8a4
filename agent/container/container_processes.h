// What runs in a container, as the host's /proc shows it. The engine is not asked: it may not answer.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

#include "agent/census/process_table.h"

namespace tfdist::agent {

// Where a container's client writes its id (`--cidfile`), in the folder of its run.
std::filesystem::path ContainerIdFile(const std::filesystem::path& run_folder);

// The first process of the container, which may be an init, and all others in it. Known by the container's cgroup, which bears
// its id; where it has none (podman without root and cgroups of version 1), as a descendant of its holder in another pid
// namespace. Empty: it has not begun, or has ended.
std::vector<ProcessInfo> ProcessesInContainer(const std::filesystem::path& run_folder, pid_t holder,
                                              const std::vector<ProcessInfo>& table);

// Whether it is the first process of its pid namespace.
bool IsFirstInContainer(pid_t pid);

}  // namespace tfdist::agent
