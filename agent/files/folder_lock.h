// A folder of `<base>` that jobs share: who makes something in it has its lock.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/unique_fd.h"

namespace tfdist::agent {

// Why such a folder was not removed.
struct WhyItStays {
  std::string why;
  bool in_use = false;  // by a job, or perhaps
  bool operator==(const WhyItStays&) const = default;
};

inline constexpr const char* kLockFile = "lock";  // in the folder

// Makes the folder where there is none. nullopt: another process has the lock. It is freed with the last descriptor.
// Throws Error(kFiles).
std::optional<UniqueFd> TryLockFolder(const std::filesystem::path& folder);

// The same beside others that do so, of a folder that is there. nullopt: it is not, or somebody makes something in it.
std::optional<UniqueFd> TryShareFolder(const std::filesystem::path& folder);

}  // namespace tfdist::agent
