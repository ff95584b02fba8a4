// Files that come from a pipe: "-" on the command line.
#pragma once

#include <cstddef>
#include <string>

namespace tfdist::cli {

inline constexpr const char* kStandardInput = "-";

// All of it. Throws UsageError(kConfig) where it is longer than `most_bytes`. Blocks until its end.
std::string ReadStandardInput(size_t most_bytes);

}  // namespace tfdist::cli
