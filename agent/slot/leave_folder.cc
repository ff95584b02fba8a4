#include "agent/slot/leave_folder.h"

#include <unistd.h>

#include <filesystem>

#include "agent/slot/run_folders.h"

namespace tfdist::agent {
namespace {

// tasks/<task>/run-<attempt>-<run>/spec
void RemoveSpecs(const SlotFolder& folder) {
  for (const std::filesystem::path& run : RunFolders(folder)) unlink((run / "spec").c_str());
}

}  // namespace

void LeaveFolder(const SlotFolder& folder) {
  for (const auto& path :
       {folder.socket(), folder.key(), folder.secret(), folder.description(), folder.reserve()}) {
    unlink(path.c_str());
  }
  RemoveSpecs(folder);
}

}  // namespace tfdist::agent
