// Whole files and whole writes, with the errors named.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/unique_fd.h"

namespace tfdist {

// The content of `path`, or nullopt when there is no such file. Throws Error(kFiles) on any other
// failure and when the file is longer than `limit_bytes`.
std::optional<std::string> ReadFileIfExists(const std::filesystem::path& path, size_t limit_bytes);

// As ReadFileIfExists, of a file that a folder of ours holds: a link, a pipe, and a file of another
// account are errors, and none of them is waited for.
std::optional<std::string> ReadOwnFileIfExists(const std::filesystem::path& path,
                                               size_t limit_bytes);

// Replaces `path` as a whole: written aside with `mode`, synced, renamed, folder synced. Readers
// see the old content or the new, also after a power failure. Throws Error(kFiles).
void ReplaceFile(const std::filesystem::path& path, std::string_view content, mode_t mode);

// After it a rename or a new name in `folder` outlives a power failure, where the file system can
// do that: some network file systems cannot. Throws Error(kFiles).
void SyncFolder(const std::filesystem::path& folder);

// Writes all of `bytes`, through EINTR and short writes. Throws Error(kFiles); `name` is for its
// text.
void WriteAll(int fd, std::string_view bytes, std::string_view name);

// open(2) with O_CLOEXEC added; throws Error(kFiles) that names `path`.
UniqueFd OpenFile(const std::filesystem::path& path, int flags, mode_t mode = 0600);

// Makes `path` (parents too) with 0700 and checks that it is a folder of ours that nobody else may
// enter: owner, type, mode. Throws Error(kFiles).
void MakePrivateFolder(const std::filesystem::path& path);

}  // namespace tfdist
