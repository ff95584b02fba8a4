#include "cli/pull/local_copy.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <iterator>
#include <optional>

#include "base/error.h"
#include "base/file.h"

namespace tfdist::cli {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kSecond = 1'000'000'000;
// Of a file's name within its part's, which may have 255 bytes.
constexpr size_t kMostNameBytes = 200;
constexpr uint64_t kKeptFreeBytes = 64 << 20;
constexpr uint64_t kLookEveryBytes = 16 << 20;
constexpr int kMostLinks = 40;

[[noreturn]] void Fail(std::string_view what, const fs::path& path) {
  throw Error(Phase::kFiles, WithErrno(fmt::format("{} {}", what, path.string()), errno));
}

// Not by umask(2), which changes it for all threads. Kernels before 4.7 do not say.
mode_t UserMask() {
  constexpr std::string_view kKey = "\nUmask:\t";
  constexpr mode_t kStrictest = 077;
  const std::string status = ReadFileIfExists("/proc/self/status", 1 << 16).value_or("");
  const size_t key = status.find(kKey);
  if (key == std::string::npos) return kStrictest;
  mode_t mask = kStrictest;
  const char* digits = status.data() + key + kKey.size();
  std::from_chars(digits, status.data() + status.size(), mask, 8);
  return mask;
}

std::array<timespec, 2> TimesOf(const RemoteFile& file) {
  const int64_t seconds = file.changed_ns / kSecond - (file.changed_ns % kSecond < 0 ? 1 : 0);
  const timespec time{seconds, file.changed_ns - seconds * kSecond};
  return {time, time};
}

// False: it was there. A link could lead out of the folder.
bool MakeFolder(const fs::path& path) {
  struct stat info {};
  if (mkdir(path.c_str(), 0700) == 0) return true;
  if (errno != EEXIST) Fail("cannot make", path);
  if (lstat(path.c_str(), &info) != 0) Fail("cannot look at", path);
  if (!S_ISDIR(info.st_mode)) {
    throw Error(Phase::kFiles, fmt::format("{} is no folder", path.string()));
  }
  return false;
}

std::optional<struct stat> LookAtFile(const fs::path& path) {
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
  return info;
}

}  // namespace

LocalPlace::LocalPlace(fs::path root, const std::vector<RemoteFile>& folders)
    : root_(std::move(root)), umask_(UserMask()) {
  for (const RemoteFile& folder : folders) folders_.emplace(folder.path, folder);
}

void LocalPlace::MakeFoldersOf(const std::string& path) {
  for (size_t slash = path.find('/'); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    std::string folder = path.substr(0, slash);
    if (MakeFolder(root_ / folder)) made_.push_back(std::move(folder));
  }
}

void LocalPlace::CheckRoom(uint64_t bytes) const {
  struct statvfs info {};
  if (statvfs(root_.c_str(), &info) != 0) return;  // what follows fails with its reason
  const uint64_t free_bytes = uint64_t{info.f_bavail} * info.f_frsize;
  if (free_bytes >= kKeptFreeBytes && free_bytes - kKeptFreeBytes >= bytes) return;
  throw Error(Phase::kFiles,
              fmt::format("{} MiB are to come to {}, where {} MiB are free; 64 of them stay free",
                          bytes >> 20, root_.string(), free_bytes >> 20),
              "--to FOLDER on another disk, or some of it: tfdist pull JOB PATH");
}

void LocalPlace::Finish() {
  // The innermost first: the time of a folder changes with what is made in it.
  for (auto path = made_.rbegin(); path != made_.rend(); ++path) {
    const auto known = folders_.find(*path);
    const fs::path folder = root_ / *path;
    const uint32_t mode = known == folders_.end() ? 0777 : known->second.mode;
    if (chmod(folder.c_str(), Allowed(mode) | S_IRWXU) != 0) Fail("cannot set the mode of", folder);
    if (known == folders_.end()) continue;
    if (utimensat(AT_FDCWD, folder.c_str(), TimesOf(known->second).data(), 0) != 0) {
      Fail("cannot set the time of", folder);
    }
  }
  made_.clear();
}

LocalCopy::LocalCopy(LocalPlace& place, const RemoteFile& file)
    : place_(place), file_(file), path_(place.root() / file.path) {
  const std::string name = path_.filename().string().substr(0, kMostNameBytes);
  part_ =
      path_.parent_path() / fmt::format(".{}.{:x}-{:x}.part", name,
                                        static_cast<uint64_t>(file.changed_ns), file.size_bytes);
  const auto there = LookAtFile(path_);
  was_there_ = there && static_cast<uint64_t>(there->st_size) == file.size_bytes &&
               there->st_mtim.tv_sec * kSecond + there->st_mtim.tv_nsec == file.changed_ns;
  const auto part = LookAtFile(part_);
  if (part) offset_ = std::min<uint64_t>(static_cast<uint64_t>(part->st_size), file.size_bytes);
}

void LocalCopy::Open() {
  if (fd_.valid()) return;
  place_.MakeFoldersOf(file_.path);
  fd_ = UniqueFd(open(part_.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd_.valid() || fchmod(fd_.get(), 0600) != 0 ||
      ftruncate(fd_.get(), static_cast<off_t>(offset_)) != 0 || lseek(fd_.get(), 0, SEEK_END) < 0) {
    Fail("cannot write", part_);
  }
}

void LocalCopy::Write(std::string_view bytes) {
  Open();
  bytes = bytes.substr(0, std::min<uint64_t>(bytes.size(), file_.size_bytes - offset_));
  unchecked_bytes_ += bytes.size();
  if (unchecked_bytes_ >= kLookEveryBytes) {
    place_.CheckRoom(bytes.size());
    unchecked_bytes_ = 0;
  }
  WriteAll(fd_.get(), bytes, part_.string());
  offset_ += bytes.size();
}

bool LocalCopy::Finish() {
  if (offset_ != file_.size_bytes) return false;
  Open();
  if (fchmod(fd_.get(), place_.Allowed(file_.mode)) != 0) Fail("cannot set the mode of", part_);
  if (futimens(fd_.get(), TimesOf(file_).data()) != 0) Fail("cannot set the time of", part_);
  fd_.Reset();
  if (rename(part_.c_str(), path_.c_str()) != 0) Fail("cannot make", path_);
  return true;
}

bool IsThere(const LocalPlace& place, const RemoteFile& link) {
  std::error_code none;
  return fs::read_symlink(place.root() / link.path, none) == link.target;
}

void CopyLink(LocalPlace& place, const RemoteFile& link) {
  const fs::path path = place.root() / link.path;
  place.MakeFoldersOf(link.path);
  const fs::path aside = path.parent_path() / ".tfdist-link.part";
  (void)unlink(aside.c_str());  // of a pull that was killed
  if (symlink(link.target.c_str(), aside.c_str()) != 0 ||
      rename(aside.c_str(), path.c_str()) != 0) {
    Fail("cannot make", path);
  }
}

bool LinkLeadsOut(const RemoteFile& link) {
  const fs::path target(link.target);
  const fs::path parent = fs::path(link.path).parent_path();
  auto depth = std::distance(parent.begin(), parent.end());
  bool climbs = true;
  for (const fs::path& part : target) {
    climbs = climbs && part == "..";
    // Up from what may be a link itself: who knows where that is.
    if (part == ".." && (!climbs || --depth < 0)) return true;
  }
  return target.is_absolute();
}

std::vector<std::string> WithTargets(std::vector<std::string> paths,
                                     const std::vector<RemoteFile>& files) {
  std::map<std::string_view, const RemoteFile*> links;
  for (const RemoteFile& file : files) {
    if (!file.target.empty() && !LinkLeadsOut(file)) links.emplace(file.path, &file);
  }
  const size_t named = paths.size();
  for (size_t at = 0; at < named; ++at) {
    std::string path = paths[at];
    for (int followed = 0; followed < kMostLinks; ++followed) {
      const auto link = links.find(path);
      if (link == links.end()) break;
      path = (fs::path(path).parent_path() / link->second->target).lexically_normal().string();
      if (path.size() > 1 && path.ends_with('/')) path.pop_back();
      paths.push_back(path);
    }
  }
  return paths;
}

}  // namespace tfdist::cli
