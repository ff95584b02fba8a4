// One running job per name and account on slot 0: a lock that the keeper holds while the job lives.
#pragma once

#include <filesystem>

#include "agent/slot/slot_folder.h"
#include "base/unique_fd.h"

namespace tfdist::agent {

// Takes `<base>/names/<name>.lock` and writes into it which job has it. Throws protocol::NameTaken when another one runs, or is
// being started and is not one that this job waits for (WaitsFor). Blocks for kRivalLimit at most.
UniqueFd TakeNameLock(const SlotInfo& info, const std::filesystem::path& slot_folder);

}  // namespace tfdist::agent
