// Whether what is to come fits on the disk.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace tfdist::agent {

// For this account, in the file system of `folder`; nullopt where that cannot be told.
std::optional<uint64_t> FreeBytesAt(const std::filesystem::path& folder);

// Throws Error(kFiles) that names both sizes where less than `bytes` are free for this account in
// the file system of `folder`.
void CheckRoom(const std::filesystem::path& folder, uint64_t bytes);

// Likewise for `files` new files and folders, where the file system counts them.
void CheckRoomForNewFiles(const std::filesystem::path& folder, uint64_t files);

}  // namespace tfdist::agent
