// Unpacks the archive of the user's workdir.
#pragma once

#include <chrono>
#include <filesystem>
#include <stop_token>

namespace tfdist::agent {

// Runs tar(1), found in this process's PATH, with `folder` as its target. Throws Error(kFiles) with
// tar's own words when it fails, is missing, or takes longer than `limit`, and once `stop` is requested. Blocks.
void UnpackArchive(const std::filesystem::path& archive, const std::filesystem::path& folder,
                   std::chrono::milliseconds limit, const std::stop_token& stop = {});

// Throws Error(kFiles) once `stop` is requested.
void ThrowIfStopped(const std::stop_token& stop);

}  // namespace tfdist::agent
