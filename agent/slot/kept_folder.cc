#include "agent/slot/kept_folder.h"

#include <sys/stat.h>

#include <algorithm>
#include <string>
#include <system_error>

#include "agent/slot/task_files.h"

namespace tfdist::agent {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kSecond = 1'000'000'000;

// Ids of one name are in the order of their times.
bool IsNewestOfItsName(const fs::path& job, const std::string& name) {
  std::error_code error;
  // Not a range's for: its ++ throws.
  for (fs::directory_iterator other(job.parent_path(), error), end; !error && other != end;
       other.increment(error)) {
    const std::string id = other->path().filename();
    if (layout::IsJobIdOf(id, name) && id > job.filename().string()) return false;
  }
  return true;
}

bool IsTheWayToKept(const SlotFolder& folder) {
  const fs::path job = folder.path().parent_path();
  const std::string name = NameOfJob(job.filename());
  const fs::path kept = job.parent_path().parent_path() / layout::kKeep / name;
  const protocol::KeptFiles found = LookAtKept(kept, TimePoint());  // one is enough
  return (found.files > 0 || !found.all) && IsNewestOfItsName(job, name);
}

}  // namespace

fs::path KeptFolder(const SlotInfo& info) {
  return fs::path(info.base) / layout::kKeep / info.name;
}

protocol::KeptFiles LookAtKept(const fs::path& folder, TimePoint deadline) {
  protocol::KeptFiles kept;
  time_t newest = 0;
  std::error_code error;
  // Not a range's for: its ++ throws.
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    struct stat info {};
    if (lstat(entry->path().c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    ++kept.files;
    kept.bytes += static_cast<uint64_t>(info.st_size);
    if (kept.newest.empty() || info.st_mtime > newest) {
      newest = info.st_mtime;
      kept.newest = entry->path().lexically_relative(folder).string();
    }
    kept.all = SystemClock().Now() < deadline;
    if (!kept.all) break;
  }
  if (error && error != std::errc::no_such_file_or_directory) kept.all = false;
  if (!kept.newest.empty())
    kept.age_s = std::max<int64_t>(0, WallClockNanoseconds() / kSecond - newest);
  return kept;
}

bool HasResults(const SlotFolder& folder, TimePoint deadline) {
  return FindTaskFile(folder, deadline) || IsTheWayToKept(folder);
}

}  // namespace tfdist::agent
