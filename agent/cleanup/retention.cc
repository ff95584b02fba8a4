#include "agent/cleanup/retention.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <optional>
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

// Any other error may pass (a file server that does not answer, a handle that is stale): it says
// nothing about what is there.
bool IsMissing(const std::error_code& error) {
  return error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory;
}

// nullopt when they could not all be read.
std::optional<std::vector<fs::path>> Entries(const fs::path& folder) {
  std::vector<fs::path> paths;
  std::error_code error;
  // Not a range's for: its ++ throws.
  for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    paths.push_back(entry->path());
  }
  if (error && !IsMissing(error)) return std::nullopt;
  return paths;
}

std::vector<fs::path> EntriesIfPossible(const fs::path& folder) {
  return Entries(folder).value_or(std::vector<fs::path>());
}

// So is what is not there; what cannot be looked at is not.
bool IsOld(const fs::path& path, std::chrono::hours keep) {
  std::error_code error;
  const auto time = fs::last_write_time(path, error);
  return error ? IsMissing(error) : time < FileClock::now() - keep;
}

bool AreLogsOld(const fs::path& task) {
  const auto logs = Entries(task);
  return logs && std::ranges::all_of(*logs, [](const auto& log) { return IsOld(log, kKeepJobs); });
}

// A living agent, perhaps on another host that shares this home, touches its folder each hour: most
// folders need no other look.
bool IsUnused(const SlotFolder& folder) {
  if (!IsOld(folder.path(), kKeepJobs) || !IsOld(folder.journal(), kKeepJobs)) return false;
  const auto tasks = Entries(folder.tasks());
  if (!tasks || !std::ranges::all_of(*tasks, AreLogsOld)) return false;
  // Its cookie, "<job>/h<slot>", is how the folder is called.
  const fs::path& path = folder.path();
  return FindProcesses((path.parent_path().filename() / path.filename()).string(), {}).empty();
}

bool IsOver(TimePoint deadline) { return SystemClock().Now() >= deadline; }

}  // namespace

void RemoveOld(const fs::path& base, TimePoint deadline) {
  for (const fs::path& job : EntriesIfPossible(base / "jobs")) {
    for (const fs::path& slot : EntriesIfPossible(job)) {
      if (IsOver(deadline)) return;
      if (IsSlotFolder(slot) && IsUnused(SlotFolder(slot))) RemoveSlotFolder(SlotFolder(slot));
    }
  }
  std::error_code error;
  for (const fs::path& agent : EntriesIfPossible(base / "bin")) {
    if (IsOver(deadline)) return;
    if (IsSha256(agent.filename().string()) && IsOld(agent, kKeepAgents)) fs::remove(agent, error);
  }
}

void EndOrphans(const fs::path& base, TimePoint deadline) {
  for (const std::string& cookie : CookiesWithoutOwner()) {
    if (IsOver(deadline)) return;
    const SlotFolder folder(base / "jobs" / cookie);  // a cookie is "<job>/h<slot>"
    std::error_code error;
    if (!fs::exists(folder.info(), error)) continue;
    const auto census = EndProcesses(cookie, {}, folder.left(),
                                     std::min(deadline, SystemClock().Now() + kOrphansLimit));
    Log("of {}, whose keeper was killed: {} processes ended, {} left", cookie, census.killed.size(),
        census.left.size());
  }
}

void KeepHouse(const fs::path& base, TimePoint deadline) noexcept {
  for (const auto work : {EndOrphans, RemoveOld}) {
    try {
      work(base, deadline);
    } catch (const std::exception& e) {
      Log("{}, ignoring", e.what());
    }
  }
}

void MarkUsed(const fs::path& path) { utimensat(AT_FDCWD, path.c_str(), nullptr, 0); }

}  // namespace tfdist::agent
