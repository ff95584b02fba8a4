// Where the folder of a slot is now: its keeper, and each agent, works in it (keeper.cc), wherever its path leads.
#pragma once

#include <filesystem>

namespace tfdist::agent {

struct FolderNow {
  std::filesystem::path path;  // the newest one
  bool is_removed = false;
};
// Of this process's working folder.
FolderNow PathOfWorkingFolder();

}  // namespace tfdist::agent
