#include "agent/slot/folder_now.h"

#include <string>
#include <string_view>
#include <system_error>

namespace tfdist::agent {

FolderNow PathOfWorkingFolder() {
  constexpr std::string_view kDeleted = " (deleted)";  // proc(5)
  std::error_code error;
  std::string path = std::filesystem::read_symlink("/proc/self/cwd", error);
  const bool is_removed = path.ends_with(kDeleted);
  if (is_removed) path.resize(path.size() - kDeleted.size());
  return {path, is_removed};
}

}  // namespace tfdist::agent
