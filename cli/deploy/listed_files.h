// Files that were looked at, and are read afterwards: meanwhile a program may have written or removed them.
#pragma once

#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "base/error.h"
#include "base/unique_fd.h"

namespace tfdist::cli {

// `name`: what a user calls it.
Error HasChanged(const std::string& name);

// As OpenFile, of a file that was there to be read. Throws HasChanged where it is gone, and Error(kFiles) with a remedy.
UniqueFd OpenListed(const std::filesystem::path& path, int flags);

// Throws HasChanged where `path` is no longer what lstat(2) has `listed`.
void CheckUnchanged(const std::filesystem::path& path, const struct stat& listed);

}  // namespace tfdist::cli
