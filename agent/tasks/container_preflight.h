// Whether the containers of a host's tasks could start, before anything has.
#pragma once

#include <vector>

#include "agent/slot/slot_folder.h"
#include "base/clock.h"
#include "wire/host_check.h"
#include "wire/protocol.h"

namespace tfdist::agent {

// Finds the engines, and remembers them in the slot's folder; looks whether the images and what is mounted are there; and
// runs this very program in a container for each different command, where it looks for that. Returns the images. Throws
// Error(kCommand). For the file thread.
std::vector<protocol::ImageOnHost> PrepareContainers(
    const std::vector<protocol::TaskDescription>& tasks, const SlotFolder& folder,
    const SlotInfo& info);

// The same but for the trial, where nothing of the job is there yet: what is amiss, each thing once. What an engine has not
// answered by `deadline` is amiss, too.
std::vector<protocol::Trouble> FindImageTroubles(
    const std::vector<protocol::TaskDescription>& tasks, TimePoint deadline);

}  // namespace tfdist::agent
