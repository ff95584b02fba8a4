#include "agent/slot/leave_folder.h"

#include <unistd.h>

#include <chrono>
#include <filesystem>

#include "agent/slot/run_folders.h"
#include "agent/slot/task_files.h"
#include "base/clock.h"

namespace tfdist::agent {
namespace {

constexpr std::chrono::seconds kResultsLimit{30};

// tasks/<task>/run-<attempt>-<run>/spec
void RemoveSpecs(const SlotFolder& folder) {
  for (const std::filesystem::path& run : RunFolders(folder)) unlink((run / "spec").c_str());
}

}  // namespace

void RemoveUnchangedCopy(const SlotFolder& folder) {
  if (!FindTaskFile(folder, SystemClock().Now() + kResultsLimit)) RemoveWorkFolder(folder);
}

void LeaveFolder(const SlotFolder& folder) {
  for (const auto& path :
       {folder.socket(), folder.key(), folder.secret(), folder.description(), folder.reserve()}) {
    unlink(path.c_str());
  }
  RemoveSpecs(folder);
}

}  // namespace tfdist::agent
