// What earlier jobs left behind goes by itself: orphans, old folders, agents that nobody uses.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "agent/slot/slot_folder.h"
#include "agent/slot/this_machine.h"
#include "base/clock.h"

namespace tfdist::agent {

// Removes from `<base>/jobs` the slots whose newest log is older than a week, of which no process
// runs on this host, whose tasks have written no file (task_files.h) and printed nothing: results and logs stay for the
// user to remove; from `<base>/bin` the agents that were last started two weeks ago, and from `<base>/setup` and `<base>/data` what no
// job has used for as long. Of a slot of
// this machine (`here`) that was used before it was rebooted, or not for hours, and of which nothing runs, what is
// secret goes at once; of one that another machine may have made, after a week. Nothing else: `base` may be a folder in which its user keeps other things. The file system's own clock
// says how old something is: hosts that share a home may differ in theirs. What cannot be removed
// stays, without an error; and so does, for the next time, what has not begun to be removed at
// `deadline`. Returns the slots' folders that are gone.
std::vector<std::filesystem::path> RemoveOld(const std::filesystem::path& base, TimePoint deadline,
                                             const Machine& here = ThisMachine());

// Ends what runs of a job with a folder in `<base>/jobs` when none of tfdist's own processes of
// that job does: somebody killed them all, and no census was taken. Until `deadline`.
void EndOrphans(const std::filesystem::path& base, TimePoint deadline);

// Both, orphans first; what fails is logged, and keeps no job from its start. Returns as RemoveOld.
std::vector<std::filesystem::path> KeepHouse(const std::filesystem::path& base, TimePoint deadline);

// Which machine has made the slot; empty members where that is not known.
Machine MachineOf(const SlotFolder& folder);
// For certain: clones of one image share their id, and perhaps a home.
bool IsSameMachine(const Machine& a, const Machine& b);

// What lies there, in the order of the names; nothing where there is no folder. nullopt when not all could be read.
std::optional<std::vector<std::filesystem::path>> Entries(const std::filesystem::path& folder);
// The same; what cannot be read is left out.
std::vector<std::filesystem::path> EntriesOf(const std::filesystem::path& folder);

// An agent's file or a slot's folder is in use now, by the file system's clock.
void MarkUsed(const std::filesystem::path& path);

}  // namespace tfdist::agent
