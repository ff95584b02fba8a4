// What is mounted in a folder is none of the job's, whoever has mounted it: a data set, a volume.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace tfdist::agent {

// The first mount point at `folder` or below it that the text of a /proc/PID/mountinfo has; `folder` is without symbolic links.
std::optional<std::filesystem::path> MountIn(std::string_view mountinfo,
                                             const std::filesystem::path& folder);

// Why `folder` is not to be removed, nor anything below it: something is mounted there, or this cannot be seen. Bind mounts of
// one file system count. nullopt: nothing is.
std::optional<std::string> WhyMounted(const std::filesystem::path& folder);

}  // namespace tfdist::agent
