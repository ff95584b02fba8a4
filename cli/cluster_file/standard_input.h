// Files that come from a pipe: "-" on the command line.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace tfdist::cli {

inline constexpr const char* kStandardInput = "-";

// "-", or what the shell has opened for the command (/dev/fd/63, /dev/stdin): it can be read once, and lies in no folder of
// the user's.
bool IsReadOnce(const std::filesystem::path& file);

// All of it. Throws UsageError(kConfig) where it is longer than `most_bytes`. Blocks until its end.
std::string ReadStandardInput(size_t most_bytes);

}  // namespace tfdist::cli
