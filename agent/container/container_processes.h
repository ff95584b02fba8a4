// What runs in a container, as the host's /proc shows it. The engine is not asked: it may not answer.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "agent/census/process_table.h"

namespace tfdist::agent {

// Where a container's client writes its id (`--cidfile`), in the folder of its run.
std::filesystem::path ContainerIdFile(const std::filesystem::path& run_folder);

// What stands in it; empty: nothing yet.
std::string ContainerIdOf(const std::filesystem::path& run_folder);

// Whether it runs in a container that has none of `ids`. Known by the container's cgroup or, where that has no id, by the
// process of podman that looks after it (conmon); as long as neither is seen: false. False too in the container that we run in,
// and in one that shares our pids, as distrobox and toolbox make them: a job may have been started in there.
bool IsInOtherContainer(const ProcessInfo& process, const std::vector<std::string>& ids,
                        const std::vector<ProcessInfo>& table);

// The first process of the container, which may be an init, and all others in it. Known by the container's cgroup, which bears
// its id; where it has none (podman without root and cgroups of version 1), as a descendant of its holder in another pid
// namespace. Empty: it has not begun, or has ended.
std::vector<ProcessInfo> ProcessesInContainer(const std::filesystem::path& run_folder, pid_t holder,
                                              const std::vector<ProcessInfo>& table);

// The most memory that the process has had so far; 0: not known.
uint64_t PeakBytesOf(pid_t pid);

// Whether it is the first process of its pid namespace.
bool IsFirstInContainer(pid_t pid);

}  // namespace tfdist::agent
