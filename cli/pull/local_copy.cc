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
#include "base/room_kept_free.h"
#include "base/size_text.h"

namespace tfdist::cli {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kSecond = 1'000'000'000;
// Of a file's name within its part's, which may have 255 bytes.
constexpr size_t kMostNameBytes = 200;
constexpr uint64_t kLookEveryBytes = 1 << 20;
constexpr int kMostLinks = 40;

[[noreturn]] void Fail(std::string_view what, const fs::path& path) {
  throw Error(Phase::kFiles, WithErrno(fmt::format("{} {}", what, path.string()), errno),
              std::string(kOtherFolderRemedy));
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

// A time that is right already is not set: nothing need be written where all is here.
bool SetTime(int fd, const RemoteFile& file) {
  const std::array<timespec, 2> times = TimesOf(file);
  struct stat info {};
  if (fstat(fd, &info) == 0 && info.st_mtim.tv_sec == times[1].tv_sec &&
      info.st_mtim.tv_nsec == times[1].tv_nsec) {
    return true;
  }
  return futimens(fd, times.data()) == 0;
}

// False: it was there. A link could lead out of the folder.
bool MakeFolder(int parent, const std::string& path, const fs::path& name) {
  struct stat info {};
  if (mkdirat(parent, path.c_str(), 0700) == 0) return true;
  if (errno != EEXIST) Fail("cannot make", name);
  if (fstatat(parent, path.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) Fail("cannot look at", name);
  if (!S_ISDIR(info.st_mode)) {
    throw Error(Phase::kFiles, fmt::format("{} is no folder", name.string()),
                "--to another folder, or move it away");
  }
  return false;
}

UniqueFd OpenFolder(int parent, const std::string& path) {
  return UniqueFd(openat(parent, path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

UniqueFd OpenRoot(const fs::path& path) {
  MakeFolder(AT_FDCWD, path.string(), path);
  UniqueFd fd = OpenFolder(AT_FDCWD, path.string());
  struct stat info {};
  if (!fd.valid() || fstat(fd.get(), &info) != 0) Fail("cannot open", path);
  if (info.st_uid == geteuid()) return fd;
  throw Error(Phase::kFiles,
              fmt::format("{} belongs to another account (uid {})", path.string(), info.st_uid),
              "--to a folder of yours");
}

struct Piece {
  size_t size_bytes = 0;
  bool is_hole = false;
};

// Blocks of zeros are left out, as a task that sizes its file first has left them out: they would fill the disk here.
Piece NextPiece(uint64_t offset, std::string_view bytes) {
  constexpr uint64_t kBlockBytes = 4096;
  Piece piece;
  while (piece.size_bytes < bytes.size()) {
    const uint64_t to_end = kBlockBytes - (offset + piece.size_bytes) % kBlockBytes;
    const std::string_view block = bytes.substr(piece.size_bytes, to_end);
    const bool is_hole = block.find_first_not_of('\0') == block.npos;
    if (piece.size_bytes > 0 && is_hole != piece.is_hole) break;
    piece.is_hole = is_hole;
    piece.size_bytes += block.size();
  }
  return piece;
}

void WriteAllAt(int fd, std::string_view bytes, uint64_t offset, const std::string& name) {
  if (lseek(fd, static_cast<off_t>(offset), SEEK_SET) < 0) Fail("cannot write", name);
  WriteAll(fd, bytes, name);
}

std::optional<struct stat> LookAtFile(const LocalPlace& place, const std::string& path) {
  struct stat info {};
  const int failed = fstatat(place.fd(), path.c_str(), &info, AT_SYMLINK_NOFOLLOW);
  if (failed != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
  return info;
}

}  // namespace

LocalPlace::LocalPlace(fs::path root, const std::string& job,
                       const std::vector<RemoteFile>& folders)
    : root_(std::move(root)), fd_(OpenRoot(root_)), brought_(root_, job), umask_(UserMask()) {
  for (const RemoteFile& folder : folders) folders_.emplace(folder.path, folder);
}

void LocalPlace::MakeFoldersOf(const std::string& path) {
  for (size_t slash = path.find('/'); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    const std::string folder = path.substr(0, slash);
    if (MakeFolder(fd_.get(), folder, root_ / folder)) {
      brought_.NoteFolder({.path = folder});
    } else {
      OpenAgain(folder);
    }
  }
}

// One in which the host's account may not write either, and which an earlier pull has finished so.
void LocalPlace::OpenAgain(const std::string& folder) {
  const auto known = folders_.find(folder);
  if (known == folders_.end() || (known->second.mode & S_IWUSR) != 0) return;
  struct stat info {};
  const int failed = fstatat(fd_.get(), folder.c_str(), &info, AT_SYMLINK_NOFOLLOW);
  if (failed != 0 || (info.st_mode & S_IWUSR) != 0) return;
  const auto is_it = [&](const Brought::Folder& one) {
    return one.path == folder && one.is_finished;
  };
  if (std::ranges::none_of(brought_.Folders(), is_it)) return;
  const UniqueFd fd = OpenFolder(fd_.get(), folder);
  if (!fd.valid() || fchmod(fd.get(), S_IRWXU) != 0) Fail("cannot set the mode of", root_ / folder);
  brought_.NoteFolder({.path = folder});
}

void LocalPlace::Finish() {
  for (const Brought::Folder& folder : brought_.Folders()) Finish(folder);
}

// One that the user has put in its place, or closed, is the user's.
void LocalPlace::Finish(const Brought::Folder& folder) {
  const UniqueFd fd = OpenFolder(fd_.get(), folder.path);
  if (!fd.valid()) return;
  const auto known = folders_.find(folder.path);
  if (!folder.is_finished) {
    const uint32_t mode = known == folders_.end() ? 0777 : known->second.mode;
    if (fchmod(fd.get(), Allowed(mode) | S_IRUSR | S_IXUSR) != 0) {
      Fail("cannot set the mode of", root_ / folder.path);
    }
  }
  if (known != folders_.end() && !SetTime(fd.get(), known->second)) {
    Fail("cannot set the time of", root_ / folder.path);
  }
  if (!folder.is_finished) brought_.NoteFolder({.path = folder.path, .is_finished = true});
}

void CheckRoom(const fs::path& folder, uint64_t bytes, const std::string& remedy) {
  struct statvfs info {};
  if (statvfs(folder.c_str(), &info) != 0) return;  // what follows fails with its reason
  const uint64_t free_bytes = uint64_t{info.f_bavail} * info.f_frsize;
  const uint64_t kept_bytes = BytesToKeepFree(info);
  if (free_bytes >= kept_bytes && free_bytes - kept_bytes >= bytes) return;
  throw Error(
      Phase::kFiles,
      fmt::format("{} are to come to {}, where {} are free; {} of them stay free", SizeText(bytes),
                  folder.string(), SizeText(free_bytes), SizeText(kept_bytes)),
      remedy);
}

LocalCopy::LocalCopy(LocalPlace& place, const RemoteFile& file) : place_(place), file_(file) {
  const fs::path path = file.path;
  const std::string name = path.filename().string().substr(0, kMostNameBytes);
  const int64_t version = file.inode_changed_ns != 0 ? file.inode_changed_ns : file.changed_ns;
  part_ = path.parent_path() /
          fmt::format(".{}.{:x}-{:x}.part", name, static_cast<uint64_t>(version), file.size_bytes);
  const auto there = LookAtFile(place, file.path);
  was_there_ = there && static_cast<uint64_t>(there->st_size) == file.size_bytes &&
               there->st_mtim.tv_sec * kSecond + there->st_mtim.tv_nsec == file.changed_ns &&
               !place.brought().IsOutdated(file.path, file.inode_changed_ns);
  const auto part = LookAtFile(place, part_);
  if (part) offset_ = std::min<uint64_t>(static_cast<uint64_t>(part->st_size), file.size_bytes);
}

void LocalCopy::Open() {
  if (fd_.valid()) return;
  place_.MakeFoldersOf(file_.path);
  fd_ = UniqueFd(
      openat(place_.fd(), part_.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd_.valid() || fchmod(fd_.get(), 0600) != 0 ||
      ftruncate(fd_.get(), static_cast<off_t>(offset_)) != 0) {
    Fail("cannot write", place_.root() / part_);
  }
}

size_t LocalCopy::Write(std::string_view bytes) {
  Open();
  bytes = bytes.substr(0, std::min<uint64_t>(bytes.size(), file_.size_bytes - offset_));
  unchecked_bytes_ += bytes.size();
  if (unchecked_bytes_ >= kLookEveryBytes) {
    CheckRoom(place_.root(), bytes.size(), std::string(kOtherDiskRemedy));
    unchecked_bytes_ = 0;
  }
  const std::string name = (place_.root() / part_).string();
  const size_t taken = bytes.size();
  while (!bytes.empty()) {
    const Piece piece = NextPiece(offset_, bytes);
    if (!piece.is_hole) WriteAllAt(fd_.get(), bytes.substr(0, piece.size_bytes), offset_, name);
    offset_ += piece.size_bytes;
    bytes.remove_prefix(piece.size_bytes);
    // Its size says how much has come.
    if (piece.is_hole && ftruncate(fd_.get(), static_cast<off_t>(offset_)) != 0)
      Fail("cannot write", name);
  }
  return taken;
}

size_t LocalCopy::WriteHole(uint64_t bytes) {
  Open();
  const uint64_t taken = std::min(bytes, file_.size_bytes - offset_);
  offset_ += taken;
  if (ftruncate(fd_.get(), static_cast<off_t>(offset_)) != 0)
    Fail("cannot write", place_.root() / part_);
  return taken;
}

bool LocalCopy::Finish() {
  if (offset_ != file_.size_bytes) return false;
  Open();
  const fs::path part = place_.root() / part_;
  if (fchmod(fd_.get(), place_.Allowed(file_.mode)) != 0) Fail("cannot set the mode of", part);
  if (!SetTime(fd_.get(), file_)) Fail("cannot set the time of", part);
  fd_.Reset();
  if (renameat(place_.fd(), part_.c_str(), place_.fd(), file_.path.c_str()) != 0) {
    Fail("cannot make", place_.root() / file_.path);
  }
  return true;
}

bool IsThere(const LocalPlace& place, const RemoteFile& link) {
  std::string target(link.target.size() + 1, '\0');
  const ssize_t size = readlinkat(place.fd(), link.path.c_str(), target.data(), target.size());
  return size >= 0 && target.substr(0, static_cast<size_t>(size)) == link.target;
}

void CopyLink(LocalPlace& place, const RemoteFile& link) {
  place.MakeFoldersOf(link.path);
  const std::string aside = fs::path(link.path).parent_path() / ".tfdist-link.part";
  (void)unlinkat(place.fd(), aside.c_str(), 0);  // of a pull that was killed
  if (symlinkat(link.target.c_str(), place.fd(), aside.c_str()) != 0) {
    Fail("cannot make", place.root() / link.path);
  }
  // Some file systems have no times of links.
  (void)utimensat(place.fd(), aside.c_str(), TimesOf(link).data(), AT_SYMLINK_NOFOLLOW);
  if (renameat(place.fd(), aside.c_str(), place.fd(), link.path.c_str()) != 0) {
    Fail("cannot make", place.root() / link.path);
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
