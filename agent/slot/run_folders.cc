#include "agent/slot/run_folders.h"

#include <system_error>

namespace tfdist::agent {

std::vector<std::filesystem::path> RunFolders(const SlotFolder& folder) {
  using Iterator = std::filesystem::directory_iterator;
  std::vector<std::filesystem::path> found;
  std::error_code error;
  for (Iterator task(folder.tasks(), error); !error && task != Iterator(); task.increment(error)) {
    std::error_code ignored;
    for (Iterator run(task->path(), ignored); !ignored && run != Iterator();
         run.increment(ignored)) {
      if (run->path().filename().string().starts_with("run-")) found.push_back(run->path());
    }
  }
  return found;
}

}  // namespace tfdist::agent
