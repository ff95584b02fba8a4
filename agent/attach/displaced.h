// A slot that runs while no path leads to its folder, or another one than its processes know: it was moved or removed,
// or another file system lies over it. Its keeper works in it (`/proc/<keeper>/cwd`), and this process does, too.
#pragma once

#include "agent/slot/slot_folder.h"

namespace tfdist::agent {

// As it is reached from this process's working folder. What was removed is not there.
SlotFolder DisplacedFolder();

// Its keeper ends its tasks with their grace, and then itself, with the agent; with `force` nothing is asked to end. From now on
// the agent does nothing: it would take the end of its tasks for a failure, and note that in the journal. What is still there
// is the census's. Blocks.
void EndWithItsKeeper(const SlotFolder& folder, bool force);

}  // namespace tfdist::agent
