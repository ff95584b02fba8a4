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

struct ImagesFound {
  std::vector<protocol::ImageFact> images;
  std::vector<protocol::Trouble> troubles;  // each thing once
};
// The same but for the trial, where nothing of the job is there yet, and images may be pulled later. What an engine has not
// answered by `deadline` is amiss, too.
ImagesFound LookAtImages(const std::vector<protocol::TaskDescription>& tasks, TimePoint deadline);

}  // namespace tfdist::agent
