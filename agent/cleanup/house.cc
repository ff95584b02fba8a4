#include "agent/cleanup/house.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <functional>
#include <iterator>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "agent/census/process_table.h"
#include "agent/cleanup/retention.h"
#include "agent/data/data_folder.h"
#include "agent/files/file_store.h"
#include "agent/setup/set_up_folder.h"
#include "agent/slot/description.h"
#include "agent/slot/kept_folder.h"
#include "agent/slot/slot_census.h"
#include "agent/slot/slot_folder.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "job/layout.h"

namespace tfdist::agent {
namespace {

namespace fs = std::filesystem;

// Of a set-up, {keep}, or what runs of a slot.
constexpr std::chrono::seconds kLookLimit{10};
constexpr size_t kHashDigits = 64;
constexpr const char* kRemoveItself =
    "end that cause there, as root where it is another account's; then the same again";

std::string DownOf(const fs::path& slot) {
  return fmt::format("tfdist down {} ends it, or says what helps; then the same again",
                     slot.parent_path().filename().string());
}

bool IsSlot(const fs::path& path) {
  const std::string name = (path.parent_path().filename() / path.filename()).string();
  return layout::ParseSlotPath(name).has_value() && IsSlotFolder(path);
}

std::vector<fs::path> SlotsIn(const fs::path& base) {
  std::vector<fs::path> slots;
  for (const fs::path& job : EntriesOf(base / layout::kJobs)) {
    std::ranges::copy_if(EntriesOf(job), std::back_inserter(slots), IsSlot);
  }
  return slots;
}

// What NFS and FUSE make of a removed file for as long as a process has it open.
bool HoldsOpenFile(const fs::path& folder) {
  return std::ranges::any_of(EntriesOf(folder), [](const fs::path& path) {
    const std::string name = path.filename().string();
    return name.starts_with(".nfs") || name.starts_with(".fuse_hidden");
  });
}

bool IsBelow(const fs::path& path, const fs::path& folder) {
  return path.string().starts_with(folder.string() + "/");
}

// Whether it is in the role that looks at the folders and removes them, as this process is: that is no use of them.
bool KeepsHouse(pid_t pid) {
  constexpr size_t kMaxBytes = 64 * 1024;
  constexpr std::string_view kRole("\0house\0", 7);
  try {
    const std::string words =
        ReadFileIfExists(fmt::format("/proc/{}/cmdline", pid), kMaxBytes).value_or("");
    return words.find(kRole) == words.find('\0') && !words.empty();
  } catch (const Error&) {
    return false;
  }
}

fs::file_time_type BeginOfLease() {
  constexpr std::chrono::hours kLease{3};
  const auto now =
      fs::file_time_type::clock::from_sys(std::chrono::sys_time<std::chrono::nanoseconds>(
          std::chrono::nanoseconds(WallClockNanoseconds())));
  return now - kLease;
}

// Another machine that shares the folder may run the slot: its key goes with the job's end, and its agent touches the folder each
// hour. One of this machine (`here`) whose agent has ended by orphan_timeout keeps its key, and runs nowhere.
bool IsLeased(const SlotFolder& folder, const Machine& here) {
  std::error_code error;
  if (!fs::exists(folder.key(), error) ||
      fs::last_write_time(folder.path(), error) <= BeginOfLease()) {
    return false;
  }
  return !fs::exists(folder.orphaned(), error) || !IsSameMachine(MachineOf(folder), here);
}

// Data that no job uses; one on another machine, perhaps, has touched it each hour.
fs::file_time_type DataUnusedSince(const fs::path& base) {
  const Machine here = ThisMachine();
  const bool may_run = std::ranges::any_of(
      SlotsIn(base), [&](const fs::path& slot) { return IsLeased(SlotFolder(slot), here); });
  return may_run ? BeginOfLease() : fs::file_time_type::max();
}

// What the processes of this account run.
class Programs {
 public:
  Programs() {
    for (const ProcessInfo& process : ReadProcessTable()) {
      const fs::path program = ExecutableOf(process.id.pid);
      if (!program.empty() && !KeepsHouse(process.id.pid)) programs_.push_back(program);
    }
  }
  [[nodiscard]] bool RunBelow(const fs::path& folder) const {
    return std::ranges::any_of(programs_, [&](const auto& path) { return IsBelow(path, folder); });
  }

 private:
  std::vector<fs::path> programs_;
};

// As du(1) counts: of several links to one file the first.
class DiskUse {
 public:
  // What `path` holds beyond all that was asked about before.
  uint64_t KibOf(const fs::path& path) {
    uint64_t bytes = BytesOf(path);
    std::error_code error;
    const auto options = fs::directory_options::skip_permission_denied;
    for (fs::recursive_directory_iterator entry(path, options, error);
         !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
      bytes += BytesOf(entry->path());
    }
    return bytes >> 10;
  }

 private:
  uint64_t BytesOf(const fs::path& path) {
    constexpr uint64_t kBlockBytes = 512;
    struct stat info {};
    if (lstat(path.c_str(), &info) != 0) return 0;
    if (info.st_nlink > 1 && !S_ISDIR(info.st_mode) &&
        !seen_.emplace(info.st_dev, info.st_ino).second) {
      return 0;
    }
    return static_cast<uint64_t>(info.st_blocks) * kBlockBytes;
  }

  std::set<std::pair<dev_t, ino_t>> seen_;
};

protocol::ListedSlot Listed(const fs::path& path, size_t base, const Programs& programs,
                            const Machine& here) {
  protocol::ListedSlot listed;
  listed.base = base;
  listed.job = path.parent_path().filename();
  listed.slot = layout::ParseSlotName(path.filename().string()).value_or(0);
  listed.running = programs.RunBelow(path);
  listed.leased = !listed.running && IsLeased(SlotFolder(path), here);
  return listed;
}

bool HasHashAndThen(std::string_view name, char next, size_t more) {
  return name.size() >= kHashDigits + 1 + more && name[kHashDigits] == next &&
         IsSha256(name.substr(0, kHashDigits));
}

// Agents, uploads of them, and what tried whether programs run there (cli/link/host.sh).
bool IsAgentFile(std::string_view name) {
  return IsSha256(name) || name.starts_with(".probe.") ||
         (name.starts_with('.') && HasHashAndThen(name.substr(1), '.', 0));
}

// Received files, and those that were being received (mkstemp).
bool IsReceivedFile(std::string_view name) {
  constexpr size_t kTemporary = 6;
  return IsSha256(name) ||
         (HasHashAndThen(name, '.', kTemporary) && name.size() == kHashDigits + 1 + kTemporary);
}

bool IsLock(std::string_view name) { return name.ends_with(".lock"); }

bool IsFolder(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(fs::symlink_status(path, error));
}

class Remover {
 public:
  explicit Remover(const protocol::RemoveSlots& request) : request_(request) {}

  void Clean(const fs::path& base) {
    for (const fs::path& slot : SlotsIn(base)) {
      if (IsMeant(slot.parent_path())) RemoveIfIdle(slot);
    }
    for (const std::string& job : request_.jobs) LeaveJob(base / layout::kJobs / job);
    rmdir((base / layout::kJobs).c_str());
    for (const std::string& name : request_.kept_names) PurgeKept(base, name, true);
    if (request_.caches_stay || Programs().RunBelow(base)) {
      NoteUsed(base, "other jobs use it");
    } else {
      RemoveCaches(base);
    }
  }
  void Purge(const fs::path& base) {
    for (const std::string& job : request_.jobs) {
      const fs::path slot = base / layout::kJobs / layout::SlotPath(job, request_.slot);
      if (IsFolder(slot)) RemoveIfIdle(slot);
      LeaveJob(slot.parent_path());
      PurgeKept(base, NameOfJob(job), request_.kept);
    }
  }
  protocol::Removal Take() { return std::move(removal_); }

 private:
  [[nodiscard]] bool IsMeant(const fs::path& job) const {
    return std::ranges::find(request_.jobs, job.filename().string()) != request_.jobs.end();
  }
  void Keep(const fs::path& path, const std::string& why, const std::string& remedy) {
    removal_.kept.push_back({fmt::format("{}: {}", path.string(), why), remedy});
  }
  void KeepAsItRuns(const fs::path& path, const std::string& why) {
    Keep(path, why, DownOf(path));
    removal_.kept.back().runs = true;
  }
  void NoteUsed(const fs::path& path, const std::string& why) {
    removal_.in_use.push_back(fmt::format("{}: {}", path.string(), why));
  }
  void NoteRemoved(const fs::path& path) { removal_.removed.push_back(path.string()); }

  void NoteOutcome(const fs::path& path, const std::optional<std::string>& left) {
    if (left) {
      Keep(path, *left, kRemoveItself);
    } else {
      NoteRemoved(path);
    }
  }

  // With its last slot.
  void LeaveJob(const fs::path& job) {
    if (const auto left = RemoveLevelOfNoSlot(job))
      Keep(job / layout::kLevel, *left, kRemoveItself);
    rmdir(job.c_str());
  }

  void RemoveIfIdle(const fs::path& path) {
    const SlotFolder folder(path);
    const Programs programs;
    if (programs.RunBelow(path) || (folder.HasLevel() && programs.RunBelow(folder.level()))) {
      KeepAsItRuns(path, "something of it runs");
    } else if (const auto left = WhatMayBeLeft(folder, SystemClock().Now() + kLookLimit)) {
      KeepAsItRuns(path, *left);
    } else {
      NoteOutcome(path, RemoveSlotFolder(folder));
    }
  }
  // The last job of a name takes along what those jobs kept: all of it, or else an empty folder.
  void PurgeKept(const fs::path& base, const std::string& name, bool all) {
    const fs::path kept = base / layout::kKeep / name;
    if (name.empty() || !IsFolder(kept)) return;
    const auto jobs = Entries(base / layout::kJobs);
    if (!jobs && !all) return;
    if (!jobs) {
      return Keep(kept, "the jobs that may have it could not be listed",
                  fmt::format("there, ls {} shows why", (base / layout::kJobs).string()));
    }
    const auto has_it = [&](const fs::path& job) {
      return NameOfJob(job.filename().string()) == name;
    };
    if (std::ranges::any_of(*jobs, has_it)) return;
    if (all) {
      NoteOutcome(kept, RemoveTree(kept));
    } else {
      rmdir(kept.c_str());
    }
    if (!IsFolder(kept)) unlink(UsersOfKept(kept).c_str());
    rmdir(kept.parent_path().c_str());
  }

  void RemoveCaches(const fs::path& base) {
    RemoveFiles(base / layout::kAgents, IsAgentFile);
    RemoveFiles(base / layout::kFiles, IsReceivedFile);
    RemoveFolders(base / layout::kSetUps, IsSetUpFolder, RemoveSetUp);
    RemoveFolders(
        base / layout::kData, IsSha256,
        [since = DataUnusedSince(base)](const fs::path& path) { return RemoveData(path, since); });
    if (!SlotsIn(base).empty()) return;
    RemoveFiles(base / layout::kNames, IsLock);  // nobody holds one where there is no job
    // It may be a folder that is not tfdist's alone.
    unlink((base / layout::kBaseId).c_str());
    if (rmdir(base.c_str()) == 0) NoteRemoved(base);
  }
  // `remove` says why a folder stays.
  void RemoveFolders(const fs::path& folder, bool (*is_own)(std::string_view),
                     const std::function<std::optional<WhyItStays>(const fs::path&)>& remove) {
    if (!IsFolder(folder)) return;
    const size_t stay = removal_.kept.size() + removal_.in_use.size();
    for (const fs::path& path : EntriesOf(folder)) {
      if (!is_own(path.filename().string()) || !IsFolder(path)) continue;
      const auto left = remove(path);
      if (!left) continue;
      if (left->in_use) {
        NoteUsed(path, left->why);
      } else {
        Keep(path, left->why, kRemoveItself);
      }
    }
    if (removal_.kept.size() + removal_.in_use.size() == stay)
      RemoveFiles(folder, [](std::string_view) { return false; });
  }
  // And the folder, where it held nothing else.
  void RemoveFiles(const fs::path& folder, bool (*is_own)(std::string_view)) {
    if (!IsFolder(folder)) return;
    const size_t kept = removal_.kept.size();
    for (const fs::path& path : EntriesOf(folder)) {
      if (!is_own(path.filename().string()) || IsFolder(path)) continue;
      if (unlink(path.c_str()) != 0 && errno != ENOENT)
        Keep(path, WithErrno("cannot be removed", errno), kRemoveItself);
    }
    if (rmdir(folder.c_str()) == 0) {
      NoteRemoved(folder);
    } else if (errno != ENOENT && removal_.kept.size() == kept) {
      // ENOENT: another host that shares it was faster.
      const bool is_open = HoldsOpenFile(folder);
      Keep(folder,
           is_open ? "a process of this host or another one has a file of it open"
                   : "more than tfdist's own is there",
           fmt::format("there, {}; then the same again",
                       is_open ? "end that process" : "move away what is yours"));
    }
  }

  const protocol::RemoveSlots& request_;
  protocol::Removal removal_;
};

// Ids and names of jobs become names of folders.
void CheckNames(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (layout::IsPlainName(name, layout::kMostJobBytes)) continue;
    throw Error(Phase::kFiles, fmt::format("'{}' is not a job's name", name));
  }
}

std::string FindInSetUps(const fs::path& base) {
  const TimePoint deadline = SystemClock().Now() + kLookLimit;
  for (const fs::path& path : EntriesOf(base / layout::kSetUps)) {
    if (!IsSetUpFolder(path.filename().string())) continue;
    if (const auto found = SetUpFolder(path).FindTaskFile(deadline)) return found->string();
  }
  return "";
}

uint64_t KibOfSlot(const SlotFolder& folder, DiskUse use) {
  const uint64_t own = use.KibOf(folder.path());
  return folder.HasLevel() ? own + use.KibOf(folder.level()) : own;
}

std::string StarterOf(const SlotFolder& folder) {
  try {
    return ReadSlotInfo(folder).started_by;
  } catch (const Error&) {
    return "";  // damaged
  }
}

// Whose job it is, and what its tasks run.
void DescribeJob(const fs::path& slot, protocol::ListedSlot& listed) {
  listed.started_by = StarterOf(SlotFolder(slot));
  protocol::HostDescription description = ReadDescription(SlotFolder(slot));
  for (protocol::TaskDescription& task : description.tasks)
    listed.tasks.push_back({std::move(task.task), std::move(task.argv)});
  listed.common = std::move(description.common);
}

protocol::KeptFiles LookInto(const fs::path& kept) {
  return LookAtKept(kept, SystemClock().Now() + kLookLimit);
}

}  // namespace

protocol::SlotList ListSlots(const protocol::ListSlots& request, const LookLimits& limits,
                             const Machine& here) {
  const Programs programs;
  const TimePoint all_by = SystemClock().Now() + limits.all;
  protocol::SlotList list;
  for (size_t at = 0; at < request.bases.size(); ++at) {
    const fs::path base = request.bases[at].value;
    DiskUse of_agents;  // a slot's own is a link to one of them: nothing would be freed
    if (request.closely) {
      list.caches_kib +=
          of_agents.KibOf(base / layout::kAgents) + DiskUse().KibOf(base / layout::kFiles) +
          DiskUse().KibOf(base / layout::kSetUps) + DiskUse().KibOf(base / layout::kData);
    }
    if (request.closely && list.task_file_in_caches.value.empty())
      list.task_file_in_caches.value = FindInSetUps(base);
    if (!request.kept_of.empty()) {
      CheckNames({request.kept_of});
      list.kept.push_back(LookInto(base / layout::kKeep / request.kept_of));
    }
    if (request.closely) {
      for (const fs::path& kept : EntriesOf(base / layout::kKeep))
        if (IsFolder(kept)) list.kept_names.push_back({at, kept.filename(), LookInto(kept)});
    }
    for (const fs::path& slot : SlotsIn(base)) {
      protocol::ListedSlot& listed = list.slots.emplace_back(Listed(slot, at, programs, here));
      if (listed.job == request.tasks_of) DescribeJob(slot, listed);
      if (!request.closely) continue;
      listed.size_kib = KibOfSlot(SlotFolder(slot), of_agents);
      const TimePoint deadline = std::min(SystemClock().Now() + limits.one_slot, all_by);
      listed.has_task_files = HasResults(SlotFolder(slot), deadline);
      listed.out_of_time = listed.has_task_files && SystemClock().Now() >= deadline;
    }
  }
  return list;
}

protocol::Removal RemoveSlots(const protocol::RemoveSlots& request) {
  CheckNames(request.jobs);
  CheckNames(request.kept_names);
  Remover remover(request);
  for (const protocol::Bytes& base : request.bases) {
    if (request.slot >= 0) {
      remover.Purge(base.value);
    } else {
      remover.Clean(base.value);
    }
  }
  return remover.Take();
}

}  // namespace tfdist::agent
