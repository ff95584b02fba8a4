// One command at a time brings files into a folder of this machine: two that write the same names cut each other's files.
#pragma once

#include <filesystem>

#include "base/unique_fd.h"

namespace tfdist::cli {

// Holds `folder`, which is there, until its end, or the process's. Waits for another one at most 10 minutes, and says so.
// Throws Error(kFiles) after that. On a file system without locks it holds nothing.
class FolderClaim {
 public:
  explicit FolderClaim(const std::filesystem::path& folder);

 private:
  UniqueFd fd_;
};

}  // namespace tfdist::cli
