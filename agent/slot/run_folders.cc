#include "agent/slot/run_folders.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <functional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "agent/census/process_table.h"
#include "agent/process/run_folder.h"
#include "base/error.h"
#include "base/failpoint.h"

namespace tfdist::agent {
namespace {

namespace fs = std::filesystem;

// Of one task; the newest first.
std::vector<fs::path> NewestRunsFirst(const fs::path& task_folder) {
  std::vector<std::pair<std::pair<int, int>, fs::path>> found;
  std::error_code error;
  fs::directory_iterator entry(task_folder, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    std::pair<int, int> number;
    const std::string name = entry->path().filename();
    if (std::sscanf(name.c_str(), "run-%d-%d", &number.first, &number.second) != 2) continue;
    if (name == RunFolderName(number.first, number.second))
      found.emplace_back(number, entry->path());
  }
  std::ranges::sort(found, std::greater());
  std::vector<fs::path> runs;
  for (auto& [number, path] : found) runs.push_back(std::move(path));
  return runs;
}

// What cannot be read stays: it is no reason to start nothing.
bool IsOver(const fs::path& run) {
  try {
    const RunState state = ReadRunState(run);
    return !state.holder_running && !state.lost;
  } catch (const Error&) {
    return false;
  }
}

bool IsRemoved(const fs::path& file) { return unlink(file.c_str()) == 0 || errno == ENOENT; }

void RemoveRun(const fs::path& run) {
  for (const RunFile& file : kRunFiles) {
    const fs::path path = run / file.name;
    if (!IsRemoved(path) || !IsRemoved(path.string() + ".part")) return;
    if (file.name == std::string_view("pid")) FailPoint("old run without its pid");
  }
  rmdir(run.c_str());
}

}  // namespace

std::vector<fs::path> RunFolders(const SlotFolder& folder) {
  using Iterator = fs::directory_iterator;
  std::vector<fs::path> found;
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

bool HostWasRestarted(const SlotFolder& folder) {
  const std::string boot_id = BootId();
  std::error_code error;
  fs::directory_iterator task(folder.tasks(), error);
  for (; !error && task != fs::directory_iterator(); task.increment(error)) {
    for (const fs::path& run : NewestRunsFirst(task->path())) {
      const auto pids = ReadRunState(run).pids;
      if (pids && pids->boot_id != boot_id) return true;
      if (pids) break;
    }
  }
  return false;
}

void RemoveOldRuns(const fs::path& task_folder) {
  const std::vector<fs::path> runs = NewestRunsFirst(task_folder);
  for (size_t i = kMostOldRuns + 1; i < runs.size(); ++i) {
    if (IsOver(runs[i])) RemoveRun(runs[i]);
  }
}

}  // namespace tfdist::agent
