#include "cli/commands/local_copy.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
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

[[noreturn]] void Fail(std::string_view what, const fs::path& path) {
  throw Error(Phase::kFiles, WithErrno(fmt::format("{} {}", what, path.string()), errno));
}

// A link could lead out of the folder.
void MakeFolder(const fs::path& path) {
  struct stat info {};
  if (mkdir(path.c_str(), 0777) == 0) return;
  if (errno != EEXIST) Fail("cannot make", path);
  if (lstat(path.c_str(), &info) != 0) Fail("cannot look at", path);
  if (!S_ISDIR(info.st_mode)) {
    throw Error(Phase::kFiles, fmt::format("{} is no folder", path.string()));
  }
}

fs::path MakeParents(const fs::path& folder, const fs::path& file) {
  fs::path made = folder;
  for (const fs::path& part : file.parent_path()) {
    made /= part;
    MakeFolder(made);
  }
  return folder / file;
}

std::optional<struct stat> LookAtFile(const fs::path& path) {
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
  return info;
}

}  // namespace

LocalCopy::LocalCopy(const fs::path& folder, const RemoteFile& file)
    : path_(MakeParents(folder, file.path)),
      size_bytes_(file.size_bytes),
      changed_ns_(file.changed_ns) {
  const std::string name = path_.filename().string().substr(0, kMostNameBytes);
  part_ = path_.parent_path() /
          fmt::format(".{}.{:x}-{:x}.part", name, static_cast<uint64_t>(changed_ns_), size_bytes_);
  const auto there = LookAtFile(path_);
  was_there_ = there && static_cast<uint64_t>(there->st_size) == size_bytes_ &&
               there->st_mtim.tv_sec * kSecond + there->st_mtim.tv_nsec == changed_ns_;
  const auto part = LookAtFile(part_);
  if (part) offset_ = std::min<uint64_t>(static_cast<uint64_t>(part->st_size), size_bytes_);
}

void LocalCopy::Open() {
  if (fd_.valid()) return;
  fd_ = UniqueFd(open(part_.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666));
  if (!fd_.valid() || ftruncate(fd_.get(), static_cast<off_t>(offset_)) != 0 ||
      lseek(fd_.get(), 0, SEEK_END) < 0) {
    Fail("cannot write", part_);
  }
}

void LocalCopy::Write(std::string_view bytes) {
  Open();
  bytes = bytes.substr(0, std::min<uint64_t>(bytes.size(), size_bytes_ - offset_));
  WriteAll(fd_.get(), bytes, part_.string());
  offset_ += bytes.size();
}

bool LocalCopy::Finish() {
  if (offset_ != size_bytes_) return false;
  Open();
  const int64_t seconds = changed_ns_ / kSecond - (changed_ns_ % kSecond < 0 ? 1 : 0);
  const timespec time{seconds, changed_ns_ - seconds * kSecond};
  const std::array<timespec, 2> times{time, time};
  if (futimens(fd_.get(), times.data()) != 0) Fail("cannot set the time of", part_);
  fd_.Reset();
  if (rename(part_.c_str(), path_.c_str()) != 0) Fail("cannot make", path_);
  return true;
}

bool CopyLink(const fs::path& folder, const RemoteFile& link) {
  const fs::path path = MakeParents(folder, link.path);
  std::error_code none;
  if (fs::read_symlink(path, none) == link.target) return false;
  const fs::path aside = path.parent_path() / ".tfdist-link.part";
  (void)unlink(aside.c_str());  // of a pull that was killed
  if (symlink(link.target.c_str(), aside.c_str()) != 0 ||
      rename(aside.c_str(), path.c_str()) != 0) {
    Fail("cannot make", path);
  }
  return true;
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

}  // namespace tfdist::cli
