// What nobody needs in a slot's folder once its job is over.
#pragma once

#include "agent/slot/slot_folder.h"

namespace tfdist::agent {

// Removes socket, keys, secret, and all that holds the user's environment: the description, and
// specs and variables of runs. Logs, exit statuses and what tasks have written stay. Blocks.
void LeaveFolder(const SlotFolder& folder);

// Removes the tasks' copy of the user's folder where none of them has written anything into the slot's folder: what it
// holds is on the user's machine. Blocks.
void RemoveUnchangedCopy(const SlotFolder& folder);

}  // namespace tfdist::agent
