// The runs that a slot's folder holds.
#pragma once

#include <cstddef>
#include <filesystem>
#include <vector>

#include "agent/slot/slot_folder.h"

namespace tfdist::agent {

// Beside the tasks' folders: the run of the set-up command, which no task is called as.
inline constexpr const char* kSetUpTask = "set-up";

// `tasks/<task>/run-<attempt>-<run>` of all tasks and of the set-up, in no order. What cannot be listed is passed over.
std::vector<std::filesystem::path> RunFolders(const SlotFolder& folder);

// Whether the host was restarted since one of the tasks, or the set-up, began its newest run.
bool HostWasRestarted(const SlotFolder& folder);

// Each start of a task makes a folder, and a task may start once a second for a week.
inline constexpr size_t kMostOldRuns = 10;

// Removes what tfdist has written of the runs in `task_folder`, but for the newest and kMostOldRuns before it. A run stays
// while its holder runs, or where it has a pid and no exit: the census looks for what it may have left.
// A folder stays in which something else lies. Cut off at any moment, the next call goes on. Errors are
// passed over.
void RemoveOldRuns(const std::filesystem::path& task_folder);

}  // namespace tfdist::agent
