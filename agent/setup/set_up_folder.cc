#include "agent/setup/set_up_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <system_error>
#include <vector>

#include "agent/files/folder_lock.h"
#include "agent/files/folder_time.h"
#include "agent/slot/mounts.h"
#include "agent/slot/slot_folder.h"
#include "agent/slot/task_files.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "job/layout.h"

namespace tfdist::agent {
namespace {

namespace fs = std::filesystem;

constexpr size_t kKeyDigits = 16;
constexpr size_t kMostMarkBytes = 4096;
constexpr std::string_view kDoneMark = ".done";
constexpr std::string_view kMadeNote = ".made";
constexpr std::chrono::hours kNextLook{24};

bool IsSetUpKey(std::string_view text) {
  return text.size() == kKeyDigits &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// Hosts of several kinds may share a home.
std::string KindOfMachine() {
  struct utsname names {};
  return uname(&names) == 0 ? names.machine : "any";
}

std::string ReadMark(const fs::path& path) {
  return ReadOwnFileIfExists(path, kMostMarkBytes).value_or("");
}

bool IsUnusedSince(const fs::path& path, fs::file_time_type than) {
  std::error_code error;
  const auto time = fs::last_write_time(path, error);
  return !error && time < than;
}

bool IsRun(const fs::path& path) {
  return path.filename() != kLockFile && path.extension() != kDoneMark &&
         path.extension() != kMadeNote;
}

bool IsOver(TimePoint deadline) { return SystemClock().Now() >= deadline; }

// One that stays is looked at again when it seems as old once more. A look that takes too long is not tried at every start
// either, and leaves time for others.
bool HasToStay(const SetUpFolder& folder, const std::string& run, fs::file_time_type oldest,
               TimePoint deadline) {
  const TimePoint now = SystemClock().Now();
  const TimePoint enough = now + (deadline - now) / 2;
  const fs::path mark = folder.Mark(run);
  if (!FindNewIn(folder.Run(run), folder.Made(run), enough)) return false;
  if (!IsOver(enough)) return utimensat(AT_FDCWD, mark.c_str(), nullptr, 0), true;
  std::error_code error;
  fs::last_write_time(mark, oldest + kNextLook, error);
  Log("{} stays: what tasks may have written into it was not looked at in time",
      folder.Run(run).string());
  return true;
}

// Without the lock, for it may take long.
std::vector<fs::path> MarksOfUnused(const SetUpFolder& folder, fs::file_time_type oldest,
                                    TimePoint deadline) {
  std::vector<fs::path> marks = EntriesIn(folder.path());
  std::erase_if(marks, [&](const fs::path& path) {
    return path.extension() != kDoneMark || !IsUnusedSince(path, oldest) ||
           HasToStay(folder, path.stem().string(), oldest, deadline);
  });
  return marks;
}

// With the lock. A job may have begun to use one since that look. The mark first: what is being removed is none that is done.
void RemoveOldSetUpRuns(const SetUpFolder& folder, const std::vector<fs::path>& marks,
                        fs::file_time_type oldest, TimePoint deadline) {
  for (const fs::path& mark : marks) {
    if (IsUnusedSince(mark, oldest)) unlink(mark.c_str());
  }
  for (const fs::path& path : EntriesIn(folder.path())) {
    if (IsOver(deadline)) return;
    if (!IsRun(path) || !IsUnusedSince(path, oldest)) continue;
    const std::string run = path.filename().string();
    std::error_code error;
    if (fs::exists(folder.Mark(run), error) || error) continue;
    if (!RemoveTree(path)) unlink(folder.Made(run).c_str());
  }
}

}  // namespace

bool IsSetUpFolder(std::string_view name) {
  return name.size() > kKeyDigits + 1 && name[kKeyDigits] == '-' &&
         IsSetUpKey(name.substr(0, kKeyDigits));
}

SetUpFolder::SetUpFolder(const fs::path& base, const std::string& key)
    : path_(base / layout::kSetUps / fmt::format("{}-{}", key, KindOfMachine())) {
  if (!IsSetUpKey(key)) throw Error(Phase::kSetUp, fmt::format("'{}' is no set-up's key", key));
}

fs::path SetUpFolder::Mark(const std::string& run) const {
  return path_ / (run + std::string(kDoneMark));
}

fs::path SetUpFolder::Made(const std::string& run) const {
  return path_ / (run + std::string(kMadeNote));
}

std::optional<UniqueFd> SetUpFolder::TryLock() const { return TryLockFolder(path_); }

std::string SetUpFolder::JobOfLock() const { return ReadMark(path_ / kLockFile); }

std::string SetUpFolder::JobOf(const std::string& run) const {
  const std::string mark = ReadMark(Mark(run));
  return mark.substr(mark.find(' ') + 1);
}

int64_t SetUpFolder::EndOf(const std::string& run) const {
  const std::string mark = ReadMark(Mark(run));
  int64_t ended_ns = 0;
  std::from_chars(mark.data(), mark.data() + mark.size(), ended_ns);
  return ended_ns;
}

std::optional<std::string> SetUpFolder::Newest() const {
  std::optional<std::string> newest;
  int64_t ended_ns = 0;
  for (const fs::path& path : EntriesIn(path_)) {
    if (path.extension() != kDoneMark) continue;
    const int64_t time = EndOf(path.stem().string());
    std::error_code error;
    if (time <= ended_ns || !fs::is_directory(path_ / path.stem(), error)) continue;
    ended_ns = time;
    newest = path.stem().string();
  }
  return newest;
}

void SetUpFolder::MarkDone(const std::string& run, const std::string& job) const {
  const UniqueFd folder = OpenFile(Run(run), O_RDONLY | O_DIRECTORY);
  if (syncfs(folder.get()) != 0) {
    throw Error(Phase::kFiles, WithErrno("cannot sync " + Run(run).string(), errno));
  }
  RememberTree(Run(run), Made(run));
  const auto newest = Newest();
  const int64_t before_ns = newest ? EndOf(*newest) : 0;  // a clock may have been set back
  const int64_t ended_ns = std::max(WallClockNanoseconds(), before_ns + 1);
  ReplaceFile(Mark(run), std::to_string(ended_ns) + " " + job, 0600);
}

void SetUpFolder::RemoveUnfinished() const {
  for (const fs::path& path : EntriesIn(path_)) {
    std::error_code error;
    if (!IsRun(path) || fs::exists(Mark(path.filename().string()), error) || error) continue;
    if (const auto left = RemoveTree(path)) {
      throw Error(Phase::kSetUp, "cannot remove what an earlier run has left: " + *left,
                  "look at what is in it, and remove it");
    }
    unlink(Made(path.filename().string()).c_str());
  }
}

std::optional<fs::path> SetUpFolder::FindTaskFile(TimePoint deadline) const {
  for (const fs::path& path : EntriesIn(path_)) {
    if (path.extension() != kDoneMark) continue;
    const std::string run = path.stem().string();
    if (auto found = FindNewIn(Run(run), Made(run), deadline)) return found;
  }
  return std::nullopt;
}

std::optional<std::string> UseSetUp(const SetUpFolder& folder) {
  const auto lock = folder.TryLock();
  if (!lock) return std::nullopt;
  auto newest = folder.Newest();
  if (newest) utimensat(AT_FDCWD, folder.Mark(*newest).c_str(), nullptr, 0);
  return newest;
}

void RemoveOldSetUps(const fs::path& base, fs::file_time_type oldest, TimePoint deadline) {
  for (const fs::path& path : EntriesIn(base / layout::kSetUps)) {
    if (!IsSetUpFolder(path.filename().string()) || !IsUnusedSince(path / kLockFile, oldest))
      continue;
    const SetUpFolder folder(path);
    const auto marks = MarksOfUnused(folder, oldest, deadline);
    const auto lock = folder.TryLock();
    if (!lock) continue;
    RemoveOldSetUpRuns(folder, marks, oldest, deadline);
    if (EntriesIn(path).size() > 1) continue;
    unlink((path / kLockFile).c_str());
    rmdir(path.c_str());
  }
}

std::optional<WhyItStays> RemoveSetUp(const std::filesystem::path& path) try {
  if (auto why = WhyMounted(path)) return WhyItStays{*why};
  const auto lock = TryLockFolder(path);
  if (!lock) return WhyItStays{"a job makes something in it", true};
  std::error_code error;
  for (std::filesystem::directory_iterator entry(path, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().extension() == kDoneMark) unlink(entry->path().c_str());
  }
  if (auto left = RemoveTree(path)) return WhyItStays{*left};
  return std::nullopt;
} catch (const Error& unlockable) {
  return WhyItStays{unlockable.cause()};
}

}  // namespace tfdist::agent
