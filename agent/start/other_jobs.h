// No host runs tasks of two jobs of one name at a time. The lock on the name is on slot 0's host
// alone: a host that the earlier job has lost may still run its tasks.
#pragma once

#include "agent/slot/slot_folder.h"

namespace tfdist::agent {

// What is to become of the agent of an earlier slot 0 whose job is over: it may still serve
// readers, or wait for hosts that were lost. It holds its job's port.
enum class Waiting { kStays, kEnds };

// Looks for other jobs of this name, account and base folder by this host's processes: folders may
// lie in a home that other hosts share. What still runs of a job that is over is swept, and so is
// one whose coordinator (before its commit: whose CLI) has been silent for long enough to count as
// lost. Throws protocol::NameTaken where one goes on, or where its agent does not answer. Blocks:
// for the tasks' grace, at most some 35 s for each slot.
void EndOtherJobs(const SlotInfo& info, Waiting waiting);

}  // namespace tfdist::agent
