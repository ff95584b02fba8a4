// No host runs tasks of two jobs of the same name at once. Only slot 0's host has the lock on the
// name, so another host may still run tasks of an earlier job that had lost it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "agent/slot/slot_folder.h"
#include "base/error.h"

namespace tfdist::agent {

// What to do with the agent of a finished job's slot 0. It may still serve readers, or wait for
// lost hosts. It holds its job's port.
enum class Waiting { kStays, kEnds };

// Finds other jobs of this name, account and base folder by the processes of this host. Of folders it takes only notes that
// name a process which runs here: hosts may share a home, so a folder here may belong to another host's job.
// Ends the processes of a finished job, and of a job that has lost its coordinator (or, before the
// commit, its command). Throws protocol::NameTaken for a job that still runs, or whose agent does
// not answer. Blocks for the grace period of the tasks, about 35 s for each slot at most.
void EndOtherJobs(const SlotInfo& info, Waiting waiting);

// Why EndOtherJobs would throw now, of a job that is heard of by `name` and `base`. Nothing ends. An agent that does not answer takes 3 s, and is no reason.
std::optional<Error> WhyNameIsTaken(const std::filesystem::path& base, const std::string& name);

}  // namespace tfdist::agent
