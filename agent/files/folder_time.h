// What time it is where a folder lies: a file server's time, for a home that hosts share. The ages of files count by it, and not by
// the host's wall clock, which may be days off.
#pragma once

#include <filesystem>
#include <vector>

namespace tfdist::agent {

// Throws Error(kFiles).
std::filesystem::file_time_type TimeAt(const std::filesystem::path& folder);

// What lies in a folder, in no order; nothing where it cannot be read.
std::vector<std::filesystem::path> EntriesIn(const std::filesystem::path& folder);

}  // namespace tfdist::agent
