#include "agent/data/data_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <set>
#include <system_error>
#include <thread>

#include "agent/files/folder_lock.h"
#include "agent/files/folder_time.h"
#include "agent/slot/mounts.h"
#include "agent/slot/slot_folder.h"
#include "agent/tasks/work_files.h"
#include "agent/tasks/workdir.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/failpoint.h"
#include "base/file.h"
#include "job/layout.h"

namespace tfdist::agent {
namespace {

namespace fs = std::filesystem;
using protocol::DataOffer;
using protocol::FileDescription;

constexpr std::chrono::minutes kDataUnpackLimit{30};
constexpr size_t kMostLockBytes = 200;
constexpr std::chrono::seconds kLockLimit{2};
constexpr std::chrono::milliseconds kLockPause{5};
constexpr const char* kUnfinished = "new.";

// Who may write to a file of all jobs would change what the others read.
void MakeReadOnly(const fs::path& path) {
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0 || S_ISLNK(info.st_mode)) return;
  const bool enters = S_ISDIR(info.st_mode) || (info.st_mode & S_IXUSR) != 0;
  if (chmod(path.c_str(), enters ? 0500 : 0400) == 0) return;
  throw Error(Phase::kFiles, WithErrno("cannot make read-only " + path.string(), errno));
}

void MakeAllReadOnly(const fs::path& folder, const std::stop_token& stop) {
  std::error_code error;
  // Not a range's for: its ++ throws.
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    ThrowIfStopped(stop);
    MakeReadOnly(entry->path());
  }
  if (error) throw Error(Phase::kFiles, "cannot look through data: " + error.message());
  MakeReadOnly(folder);
}

void WriteToDisk(const fs::path& folder) {
  const UniqueFd fd = OpenFile(folder, O_RDONLY | O_DIRECTORY);
  if (syncfs(fd.get()) == 0) return;
  throw Error(Phase::kFiles, WithErrno("cannot sync " + folder.string(), errno));
}

// The command sends them always.
const FileDescription& TimesOf(const DataOffer& offer) {
  const auto found = std::ranges::find(offer.files, protocol::kWorkTimes, &FileDescription::link);
  if (found != offer.files.end()) return *found;
  throw Error(Phase::kFiles, "data came without its times");
}

std::string JobInLock(const fs::path& lock) {
  const std::string job = ReadOwnFileIfExists(lock, kMostLockBytes).value_or("");
  return job.empty() ? "another job" : job;
}

bool IsDataUnusedSince(const fs::path& path, fs::file_time_type oldest) {
  for (const char* name : {kDoneMark, kLockFile, "packed"}) {
    std::error_code error;
    const auto time = fs::last_write_time(path / name, error);
    if (error ? error != std::errc::no_such_file_or_directory : time >= oldest) return false;
  }
  return true;
}

// What was on its way when its agent was killed.
void RemoveOldParts(const fs::path& packed, fs::file_time_type oldest) {
  for (const fs::path& path : EntriesIn(packed)) {
    std::error_code error;
    const bool is_whole = IsSha256(path.filename().string());
    if (!is_whole && fs::last_write_time(path, error) < oldest && !error) unlink(path.c_str());
  }
}

// The mark goes first, the lock last: beside a removal nobody makes it anew.
std::optional<std::string> RemoveWithLock(const fs::path& path) {
  if (unlink((path / kDoneMark).c_str()) != 0 && errno != ENOENT) {
    return WithErrno("cannot remove its mark", errno);
  }
  FailPoint("data unmarked");
  for (const fs::path& entry : EntriesIn(path)) {
    if (entry.filename() == kLockFile) continue;
    std::error_code error;
    if (fs::is_directory(fs::symlink_status(entry, error))) {
      if (auto left = RemoveTree(entry)) return left;
    } else if (unlink(entry.c_str()) != 0 && errno != ENOENT) {
      return WithErrno("cannot remove " + entry.string(), errno);
    }
  }
  unlink((path / kLockFile).c_str());
  rmdir(path.c_str());  // unless the next job has begun to make it
  return std::nullopt;
}

}  // namespace

DataFolder::DataFolder(const fs::path& base, const std::string& key)
    : path_(base / layout::kData / key) {
  if (!IsSha256(key)) throw Error(Phase::kFiles, fmt::format("'{}' is no data's key", key));
}

fs::path DataFolder::Packed(const std::string& sha256) const { return path_ / "packed" / sha256; }

bool DataFolder::IsMade() const {
  std::error_code error;
  return fs::exists(Mark(), error) && fs::is_directory(Content(), error);
}

// Who has the lock of what is made keeps it for a moment, unless it removes the mark first.
bool DataFolder::Use() const {
  const TimePoint give_up = SystemClock().Now() + kLockLimit;
  while (IsMade() && SystemClock().Now() < give_up) {
    if (const auto lock = TryShareFolder(path_)) {
      return IsMade() && utimensat(AT_FDCWD, Mark().c_str(), nullptr, 0) == 0;
    }
    std::this_thread::sleep_for(kLockPause);
  }
  return false;
}

void DataFolder::Expect(FileStore& store, const DataOffer& offer, std::vector<std::string>& missing,
                        uint64_t& needed_bytes) const {
  const bool made = Use();
  if (!made) needed_bytes += offer.unpacked_bytes;
  for (const FileDescription& file : offer.files) {
    store.Announce(file);
    if (IsHere(store, file, made)) continue;
    store.Expect(file);
    missing.push_back(file.sha256);
    needed_bytes += file.size_bytes;
  }
}

// What comes for the work folder or for other data comes once, and there.
bool DataFolder::IsHere(FileStore& store, const FileDescription& file, bool made) const {
  const auto path = PathInWork(file.link);
  const bool is_content = made && path;
  if (store.IsExpected(file.sha256)) return is_content;
  if (!is_content && store.Has(file)) return true;
  const fs::path packed = Packed(file.sha256);
  store.places().Put(file.sha256, packed, path ? Content() / *path : packed);
  std::error_code error;  // what is unpacked and not marked does not count
  return is_content || (fs::exists(packed, error) && store.Has(file));
}

std::optional<std::string> DataFolder::Unpack(const FilePlaces& places, const DataOffer& offer,
                                              const std::string& job,
                                              const std::stop_token& stop) const {
  const auto lock = TryLockFolder(path_);
  if (!lock) return JobInLock(path_ / kLockFile);
  if (!IsMade()) {
    if (ftruncate(lock->get(), 0) == 0) WriteAll(lock->get(), job, kLockFile);
    RemoveUnfinished();
    Make(places, offer, stop);
  }
  for (const FileDescription& file : offer.files) {
    if (PathInWork(file.link)) unlink(Packed(file.sha256).c_str());
  }
  return std::nullopt;
}

// A process that was killed may have left them; its tar(1) may still write to one, which nobody believes.
void DataFolder::RemoveUnfinished() const {
  for (const fs::path& path : EntriesIn(path_)) {
    const bool is_unfinished =
        path.filename().string().starts_with(kUnfinished) || path == Content();
    if (!is_unfinished) continue;
    if (const auto left = RemoveTree(path)) {
      throw Error(Phase::kFiles, fmt::format("cannot remove {}: {}", path.string(), *left),
                  "look at what is in it, and remove it");
    }
  }
}

void DataFolder::Make(const FilePlaces& places, const DataOffer& offer,
                      const std::stop_token& stop) const {
  std::string fresh = (path_ / kUnfinished).string() + "XXXXXX";
  if (mkdtemp(fresh.data()) == nullptr) {
    throw Error(Phase::kFiles, WithErrno("cannot make a folder in " + path_.string(), errno));
  }
  try {
    Fill(places, offer, fresh, stop);
    MakeAllReadOnly(fresh, stop);
    WriteToDisk(fresh);
    if (rename(fresh.c_str(), Content().c_str()) != 0) {
      throw Error(Phase::kFiles, WithErrno("cannot name " + Content().string(), errno));
    }
    ReplaceFile(Mark(), "", 0600);
  } catch (...) {
    (void)RemoveTree(fresh);
    throw;
  }
}

void DataFolder::Fill(const FilePlaces& places, const DataOffer& offer, const fs::path& folder,
                      const std::stop_token& stop) const {
  for (const FileDescription& file : offer.files) {
    if (file.link.empty())
      UnpackArchive(places.PathOf(file.sha256), folder, kDataUnpackLimit, stop);
  }
  std::set<std::string> placed;  // of two equal files each has its own mode and time
  for (const FileDescription& file : offer.files) {
    const auto path = PathInWork(file.link);
    if (!path) continue;
    ThrowIfStopped(stop);
    const bool own = placed.insert(file.sha256).second;
    PlaceInWork(places, file, folder, *path, own ? Packed(file.sha256) : fs::path());
  }
  SetTimesAndModes(places.PathOf(TimesOf(offer).sha256), folder);
}

std::optional<WhyItStays> RemoveData(const fs::path& path, fs::file_time_type unused_since) {
  try {
    if (auto why = WhyMounted(path)) return WhyItStays{*why};
    const auto lock = TryLockFolder(path);
    if (!lock) return WhyItStays{JobInLock(path / kLockFile) + " uses it", true};
    if (!IsDataUnusedSince(path, unused_since)) return WhyItStays{"a job may use it", true};
    if (auto left = RemoveWithLock(path)) return WhyItStays{*left};
    return std::nullopt;
  } catch (const Error& error) {
    return WhyItStays{error.cause()};
  }
}

void RemoveOldData(const fs::path& base, fs::file_time_type oldest) {
  for (const fs::path& path : EntriesIn(base / layout::kData)) {
    if (!IsSha256(path.filename().string())) continue;
    if (!IsDataUnusedSince(path, oldest)) {
      RemoveOldParts(path / "packed", oldest);
      continue;
    }
    (void)RemoveData(path, oldest);
  }
}

}  // namespace tfdist::agent
