// Remembers on disk which processes a census could not end. Once their parent is gone and their
// memory with it, nothing in /proc tells any more whose they were.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "agent/census/process_table.h"

namespace tfdist::agent {

// The processes that the text of such a file names, if it was written in this boot.
std::vector<ProcessId> ParseLeft(const std::string& text, std::string_view boot_id);

// Those of them that still run. Without a file: none. Throws Error(kFiles) when it cannot be read.
std::vector<ProcessInfo> ReadLeft(const std::filesystem::path& file);

// Replaces the file (0600); removes it when there are none. Throws Error(kFiles).
void WriteLeft(const std::filesystem::path& file, const std::vector<ProcessInfo>& processes);

}  // namespace tfdist::agent
