// Starts a slot's keeper, detached from this process.
#pragma once

#include <chrono>

#include "agent/keeper/keeper.h"
#include "agent/process/handover.h"
#include "agent/slot/slot_folder.h"
#include "base/unique_fd.h"

namespace tfdist::agent {

// Returns the connection to the agent once it answers. -1: no such descriptor. Throws Error(kStart)
// when that has not happened within `limit`; nothing runs then.
UniqueFd LaunchKeeper(const SlotFolder& folder, const SlotInfo& info, const HostSettings& host,
                      int listener_fd, int name_lock_fd, std::chrono::milliseconds limit,
                      Begins begins = Begins::kAnew);

}  // namespace tfdist::agent
