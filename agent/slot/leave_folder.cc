#include "agent/slot/leave_folder.h"

#include <unistd.h>

#include <filesystem>
#include <system_error>

namespace tfdist::agent {
namespace {

namespace fs = std::filesystem;

// tasks/<task>/run-<attempt>-<run>/spec
void RemoveSpecs(const SlotFolder& folder) {
  std::error_code error;
  for (fs::directory_iterator task(folder.tasks(), error);
       !error && task != fs::directory_iterator(); task.increment(error)) {
    std::error_code ignored;
    for (fs::directory_iterator run(task->path(), ignored);
         !ignored && run != fs::directory_iterator(); run.increment(ignored)) {
      if (run->path().filename().string().starts_with("run-")) {
        unlink((run->path() / "spec").c_str());
      }
    }
  }
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
