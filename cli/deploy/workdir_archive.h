// The user's work folder as one compressed tar, the same for every host.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "cli/deploy/packed_file.h"

namespace tfdist::cli {

inline constexpr uint64_t kWorkdirLimitBytes = 64ULL << 20;  // of the tar.gz

// What a folder may hold to be looked through and packed at all; both are far above what fits into
// kWorkdirLimitBytes in practice.
struct WorkdirLimits {
  uint64_t entries = 100'000;
  uint64_t bytes = 4ULL << 30;
};

// What is in a work folder, without version control folders (.git, ...).
struct WorkdirSize {
  uint64_t entries = 0;
  uint64_t bytes = 0;   // of files, not compressed
  std::string largest;  // for messages: "data (812 MiB), out (3 MiB)", entries of the folder itself
};

// Throws UsageError(kConfig) that names the folder, its largest entries and what to do, as soon as
// more than `limits` has been seen. What cannot be read counts nothing.
WorkdirSize MeasureWorkdir(const std::filesystem::path& workdir, const WorkdirLimits& limits = {});

// Runs tar(1). Version control folders are left out. The same content gives the same archive, so a
// host that has it already is not sent it again. Throws Error(kFiles) when tar fails (with what it
// said), UsageError(kConfig) beyond kWorkdirLimitBytes, naming the `largest` entries.
PackedFile PackWorkdir(const std::filesystem::path& workdir, const std::string& largest);

}  // namespace tfdist::cli
