// Remembers on disk which processes a census could not end. Once their parent is gone and their
// memory with it, nothing in /proc tells any more whose they were.
#pragma once

#include <filesystem>
#include <vector>

#include "agent/census/process_table.h"

namespace tfdist::agent {

// Those that the file names and that still run. Of another boot, or without a file: none. Throws
// Error(kFiles) when it cannot be read.
std::vector<ProcessInfo> ReadLeft(const std::filesystem::path& file);

// Replaces the file (0600); removes it when there are none. Throws Error(kFiles).
void WriteLeft(const std::filesystem::path& file, const std::vector<ProcessInfo>& processes);

}  // namespace tfdist::agent
