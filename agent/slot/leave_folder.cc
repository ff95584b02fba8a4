#include "agent/slot/leave_folder.h"

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <string>

#include "agent/process/run_folder.h"
#include "agent/slot/run_folders.h"
#include "agent/slot/task_files.h"
#include "base/clock.h"
#include "base/log.h"

namespace tfdist::agent {
namespace {

constexpr std::chrono::seconds kResultsLimit{30};

void RemoveSecretsOfRuns(const SlotFolder& folder) {
  for (const std::filesystem::path& run : RunFolders(folder)) {
    for (const RunFile& file : kRunFiles) {
      if (!file.is_secret) continue;
      unlink((run / file.name).c_str());
      unlink((run / (file.name + std::string(".part"))).c_str());
    }
  }
}

}  // namespace

void RemoveUnchangedCopy(const SlotFolder& folder) {
  if (IsWorkFolderGone(folder)) return;  // what was in it is not known
  if (FindTaskFile(folder, SystemClock().Now() + kResultsLimit)) return;
  if (const auto left = EmptyWorkFolder(folder)) {
    Log("{}, ignoring", *left);
    return;
  }
  // In this order, so that who looks meanwhile takes it at no time for one that somebody else removed.
  ForgetUnpacked(folder);
  if (const auto left = RemoveWorkFolder(folder)) Log("{}, ignoring", *left);
}

void LeaveFolder(const SlotFolder& folder) {
  for (const auto& path :
       {folder.socket(), folder.key(), folder.secret(), folder.description(), folder.reserve()}) {
    unlink(path.c_str());
  }
  RemoveSecretsOfRuns(folder);
}

}  // namespace tfdist::agent
