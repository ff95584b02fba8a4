// The user's work folder as one compressed tar, the same for every host.
#pragma once

#include <cstdint>
#include <filesystem>

#include "cli/deploy/packed_file.h"
#include "cli/deploy/workdir_list.h"

namespace tfdist::cli {

inline constexpr uint64_t kWorkdirLimitBytes = 64ULL << 20;  // of the tar.gz

// Runs tar(1) on what `listing` has. The same content gives the same archive, so a host that has it
// already is not sent it again. Throws Error(kFiles) when tar fails (with what it said),
// UsageError(kConfig) beyond kWorkdirLimitBytes, naming the largest entries.
PackedFile PackWorkdir(const std::filesystem::path& workdir, const WorkdirListing& listing);

}  // namespace tfdist::cli
