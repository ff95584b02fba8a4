// The runs that a slot's folder holds.
#pragma once

#include <filesystem>
#include <vector>

#include "agent/slot/slot_folder.h"

namespace tfdist::agent {

// `tasks/<task>/run-<attempt>-<run>` of all tasks, in no order. What cannot be listed is passed over.
std::vector<std::filesystem::path> RunFolders(const SlotFolder& folder);

}  // namespace tfdist::agent
