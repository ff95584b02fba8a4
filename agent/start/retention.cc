#include "agent/start/retention.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <exception>
#include <system_error>
#include <vector>

#include "agent/census/census.h"
#include "agent/files/file_store.h"
#include "agent/slot/slot_folder.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"

namespace tfdist::agent {
namespace {

namespace fs = std::filesystem;
using FileClock = fs::file_time_type::clock;

constexpr std::chrono::hours kKeepJobs{7 * 24};
constexpr std::chrono::hours kKeepAgents{14 * 24};
constexpr std::chrono::seconds kOrphansLimit{5};

std::vector<fs::path> Entries(const fs::path& folder) {
  std::vector<fs::path> paths;
  std::error_code error;
  // Not a range's for: its ++ throws.
  for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    paths.push_back(entry->path());
  }
  return paths;
}

// Long ago where there is none.
fs::file_time_type TimeOf(const fs::path& path) {
  std::error_code error;
  const auto time = fs::last_write_time(path, error);
  return error ? fs::file_time_type::min() : time;
}

bool IsOld(const fs::path& path, std::chrono::hours keep) {
  return TimeOf(path) < FileClock::now() - keep;
}

// A living agent, perhaps on another host that shares this home, touches its folder each hour: most
// folders need no other look.
bool IsUnused(const SlotFolder& folder) {
  if (!IsOld(folder.path(), kKeepJobs) || !IsOld(folder.journal(), kKeepJobs)) return false;
  for (const fs::path& task : Entries(folder.tasks())) {
    for (const fs::path& log : Entries(task)) {
      if (!IsOld(log, kKeepJobs)) return false;
    }
  }
  // Its cookie, "<job>/h<slot>", is how the folder is called.
  const fs::path& path = folder.path();
  return FindProcesses((path.parent_path().filename() / path.filename()).string(), {}).empty();
}

}  // namespace

void RemoveOld(const fs::path& base) {
  std::error_code error;
  for (const fs::path& job : Entries(base / "jobs")) {
    for (const fs::path& slot : Entries(job)) {
      if (IsSlotFolder(slot) && IsUnused(SlotFolder(slot))) RemoveSlotFolder(SlotFolder(slot));
    }
  }
  for (const fs::path& agent : Entries(base / "bin")) {
    if (IsSha256(agent.filename().string()) && IsOld(agent, kKeepAgents)) fs::remove(agent, error);
  }
}

void EndOrphans(const fs::path& base) {
  for (const std::string& cookie : CookiesWithoutOwner()) {
    const SlotFolder folder(base / "jobs" / cookie);  // a cookie is "<job>/h<slot>"
    std::error_code error;
    if (!fs::exists(folder.info(), error)) continue;
    const auto census =
        EndProcesses(cookie, {}, folder.left(), SystemClock().Now() + kOrphansLimit);
    Log("of {}, whose keeper was killed: {} processes ended, {} left", cookie, census.killed.size(),
        census.left.size());
  }
}

void KeepHouse(const fs::path& base) noexcept {
  for (const auto work : {EndOrphans, RemoveOld}) {
    try {
      work(base);
    } catch (const std::exception& e) {
      Log("{}, ignoring", e.what());
    }
  }
}

void MarkUsed(const fs::path& path) { utimensat(AT_FDCWD, path.c_str(), nullptr, 0); }

}  // namespace tfdist::agent
