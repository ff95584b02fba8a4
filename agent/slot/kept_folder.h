// {keep}: a folder of this host that jobs of one name keep from one to the next. What is in it is the user's: `down --purge`
// of the last job of that name here removes it, and `clean --purge` where no job of the name is left; nothing else does.
#pragma once

#include <filesystem>

#include "agent/slot/slot_folder.h"
#include "base/clock.h"
#include "job/task.h"
#include "wire/kept_files.h"

namespace tfdist::agent {

// `<base>/keep/<name>`: there is one for all slots of the machine, or for all hosts that have one home.
std::filesystem::path KeptFolder(const SlotInfo& info);

// The files in it, links not followed, as far as there is time until `deadline`. Blocks.
protocol::KeptFiles LookAtKept(const std::filesystem::path& folder, TimePoint deadline);

// What is there, and whose it is, before anything is claimed: notes nothing. Blocks until `deadline` at most. Throws Error(kFiles).
protocol::KeptFound FindKept(const std::filesystem::path& base, const protocol::KeptClaim& claim,
                             TimePoint deadline);

// Notes in `<base>/keep/.<name>` that `claim` uses {keep}, unless somebody else's files are there and it may not take them. A
// rehearsal notes nothing. Blocks. Throws Error(kFiles).
protocol::KeptBy ClaimKept(const SlotInfo& info, const protocol::KeptClaim& claim);

// Whether something in the slot's folder is the user's (task_files.h), or the folder is the way to what lies in {keep}: that of
// the newest job of its name here, whose agent `pull` asks. What cannot be looked at counts. Blocks.
bool HasResults(const SlotFolder& folder, TimePoint deadline);

}  // namespace tfdist::agent
