#include "agent/cleanup/retention.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "agent/census/census.h"
#include "agent/data/data_folder.h"
#include "agent/files/file_store.h"
#include "agent/files/folder_time.h"
#include "agent/setup/set_up_folder.h"
#include "agent/slot/kept_folder.h"
#include "agent/slot/leave_folder.h"
#include "agent/slot/slot_census.h"
#include "agent/slot/slot_folder.h"
#include "agent/slot/this_machine.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "job/layout.h"

namespace tfdist::agent {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::hours kKeepJobs{7 * 24};
constexpr std::chrono::hours kKeepAgents{14 * 24};
// A living agent touches its folder each hour (FolderUse).
constexpr std::chrono::hours kLease{3};
constexpr std::chrono::seconds kOrphansLimit{5};

// Any other error may pass (a file server that does not answer, a handle that is stale): it says
// nothing about what is there.
bool IsMissing(const std::error_code& error) {
  return error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory;
}

}  // namespace

std::optional<std::vector<fs::path>> Entries(const fs::path& folder) {
  std::vector<fs::path> paths;
  std::error_code error;
  // Not a range's for: its ++ throws.
  for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    paths.push_back(entry->path());
  }
  if (error && !IsMissing(error)) return std::nullopt;
  std::ranges::sort(paths);
  return paths;
}

namespace {

// A missing path counts as older. A path that cannot be looked at does not.
bool IsOlder(const fs::path& path, fs::file_time_type than) {
  std::error_code error;
  const auto time = fs::last_write_time(path, error);
  return error ? IsMissing(error) : time < than;
}

bool AreLogsOlder(const fs::path& task, fs::file_time_type than) {
  const auto logs = Entries(task);
  return logs && std::ranges::all_of(*logs, [&](const auto& log) { return IsOlder(log, than); });
}

// A living agent, perhaps on another host that shares this home, touches its folder each hour: that
// is its lease, and most folders need no other look.
bool IsOld(const SlotFolder& folder, fs::file_time_type oldest) {
  if (!IsOlder(folder.path(), oldest) || !IsOlder(folder.journal(), oldest)) return false;
  const auto tasks = Entries(folder.tasks());
  return tasks &&
         std::ranges::all_of(*tasks, [&](const auto& task) { return AreLogsOlder(task, oldest); });
}

bool IsOver(TimePoint deadline) { return SystemClock().Now() >= deadline; }

// No line of a log goes without the user's word. What cannot be looked at counts.
bool HasOutput(const SlotFolder& folder) {
  const auto tasks = Entries(folder.tasks());
  return !tasks || std::ranges::any_of(*tasks, [](const fs::path& task) {
    const auto files = Entries(task);
    return !files || std::ranges::any_of(*files, [](const fs::path& file) {
      std::error_code error;
      const bool is_log = file.extension() == ".log";
      return is_log && (fs::file_size(file, error) > 0 || error);
    });
  });
}

// Looking through many work folders takes long, and so does an engine that hangs: a slot that stays is looked at again when
// it seems a week older.
bool HasToStay(const SlotFolder& folder, TimePoint deadline) {
  if (!HasOutput(folder) && !HasResults(folder, deadline) && !WhatMayBeLeft(folder, deadline)) {
    return false;
  }
  if (IsOver(deadline))
    Log("{} stays: what it may hold was not looked at in time", folder.path().string());
  MarkUsed(folder.path());
  return true;
}

// Of a machine that lost power: a job's end takes with it what tasks are told (their environment), its secret and keys.
bool KeepsSecrets(const SlotFolder& folder) {
  std::error_code error;
  return fs::exists(folder.description(), error) || fs::exists(folder.secret(), error);
}

// Since the slot was last used: clones may even have the addresses that an emulator gives to all cards.
bool WasRebooted(const SlotFolder& folder, const Machine& of_slot, const Machine& here,
                 fs::file_time_type now) {
  return IsSameMachine(of_slot, here) && of_slot.boot != here.boot &&
         IsOlder(folder.path(), now - Uptime());
}

// Another machine that shares the folder may be suspended, with all that it runs.
bool MayBeElsewhere(const Machine& of_slot, const Machine& here) {
  return of_slot.id != here.id || of_slot.boot != here.boot;
}

bool IsDead(const SlotFolder& folder, const Machine& here, fs::file_time_type now) {
  const Machine of_slot = MachineOf(folder);
  const fs::file_time_type oldest = now - (MayBeElsewhere(of_slot, here) ? kKeepJobs : kLease);
  return (WasRebooted(folder, of_slot, here, now) || IsOlder(folder.path(), oldest)) &&
         !HasProcesses(folder);
}

void RemoveOldAgents(const fs::path& base, fs::file_time_type now, TimePoint deadline) {
  std::error_code error;
  for (const fs::path& agent : EntriesOf(base / layout::kAgents)) {
    if (IsOver(deadline)) return;
    const bool ours = IsSha256(agent.filename().string());
    if (ours && IsOlder(agent, now - kKeepAgents)) fs::remove(agent, error);
  }
}

}  // namespace

Machine MachineOf(const SlotFolder& folder) {
  try {
    return ReadSlotInfo(folder).machine;
  } catch (const Error&) {
    return {};
  }
}

bool IsSameMachine(const Machine& a, const Machine& b) {
  return !a.id.empty() && a.id == b.id && !a.cards.empty() && a.cards == b.cards;
}

std::vector<fs::path> EntriesOf(const fs::path& folder) {
  return Entries(folder).value_or(std::vector<fs::path>());
}

std::vector<fs::path> RemoveOld(const fs::path& base, TimePoint deadline, const Machine& here) {
  std::vector<fs::path> removed;
  std::error_code error;
  if (!fs::exists(base, error)) return removed;
  const auto now = TimeAt(base);
  for (const fs::path& job : EntriesOf(base / layout::kJobs)) {
    for (const fs::path& slot : EntriesOf(job)) {
      if (IsOver(deadline)) return removed;
      const SlotFolder folder(slot);
      if (!IsSlotFolder(slot)) continue;
      if (KeepsSecrets(folder) && IsDead(folder, here, now)) {
        const auto used = fs::last_write_time(slot, error);
        LeaveFolder(folder);
        fs::last_write_time(slot, used, error);  // it goes as early all the same
      }
      if (!IsOld(folder, now - kKeepJobs)) continue;
      if (HasToStay(folder, deadline)) continue;
      RemoveSlotFolder(folder);
      if (fs::exists(slot, error)) continue;
      Log("removed {}: over for more than a week, without files and output of a task",
          slot.string());
      removed.push_back(slot);
    }
  }
  RemoveOldAgents(base, now, deadline);
  if (!IsOver(deadline)) RemoveOldSetUps(base, now - kKeepAgents, deadline);
  if (!IsOver(deadline)) RemoveOldData(base, now - kKeepAgents);
  return removed;
}

namespace {

// A slot's key goes when its agent leaves, after a census.
bool WasAbandoned(const fs::path& slot) {
  std::error_code error;
  return IsSlotFolder(slot) && fs::exists(SlotFolder(slot).key(), error) &&
         HasLostTasks(SlotFolder(slot));
}

// As CookieValue calls them: those with a cookie, and those of which only a note names the processes.
std::vector<std::string> OrphanedSlots(const fs::path& base) {
  std::vector<std::string> slots = CookiesWithoutOwner();
  for (const fs::path& job : EntriesOf(base / layout::kJobs)) {
    for (const fs::path& slot : EntriesOf(job)) {
      if (WasAbandoned(slot)) slots.push_back((job.filename() / slot.filename()).string());
    }
  }
  return slots;
}

}  // namespace

void EndOrphans(const fs::path& base, TimePoint deadline) {
  for (const std::string& cookie : OrphanedSlots(base)) {
    if (IsOver(deadline)) return;
    const SlotFolder folder(base / layout::kJobs / cookie);
    if (!IsSlotFolder(folder.path())) continue;
    const auto census =
        EndFoundProcesses(folder, {}, std::min(deadline, SystemClock().Now() + kOrphansLimit));
    Log("of {}, whose keeper was killed: {} processes ended, {} left", cookie, census.killed.size(),
        census.left.size());
  }
}

std::vector<fs::path> KeepHouse(const fs::path& base, TimePoint deadline) {
  try {
    EndOrphans(base, deadline);
  } catch (const std::exception& e) {
    Log("{}, ignoring", e.what());
  }
  try {
    return RemoveOld(base, deadline);
  } catch (const std::exception& e) {
    Log("{}, ignoring", e.what());
    return {};
  }
}

void MarkUsed(const fs::path& path) { utimensat(AT_FDCWD, path.c_str(), nullptr, 0); }

}  // namespace tfdist::agent
