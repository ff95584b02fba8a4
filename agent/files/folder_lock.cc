#include "agent/files/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>

#include "base/error.h"
#include "base/file.h"

namespace tfdist::agent {
namespace {

namespace fs = std::filesystem;

// Retention may have removed the folder between open(2) and flock(2).
bool IsStillThere(int fd, const fs::path& path) {
  struct stat open {};
  struct stat named {};
  return fstat(fd, &open) == 0 && stat(path.c_str(), &named) == 0 && open.st_dev == named.st_dev &&
         open.st_ino == named.st_ino;
}

}  // namespace

std::optional<UniqueFd> TryLockFolder(const fs::path& folder) {
  const fs::path path = folder / kLockFile;
  while (true) {
    MakePrivateFolder(folder.parent_path());
    MakePrivateFolder(folder);
    UniqueFd fd = OpenFile(path, O_RDWR | O_CREAT | O_NOFOLLOW);
    if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK || errno == EINTR) return std::nullopt;
      throw Error(Phase::kFiles, WithErrno("cannot lock " + path.string(), errno));
    }
    if (IsStillThere(fd.get(), path)) return fd;
  }
}

std::optional<UniqueFd> TryShareFolder(const fs::path& folder) {
  const fs::path path = folder / kLockFile;
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  const bool shared = fd.valid() && flock(fd.get(), LOCK_SH | LOCK_NB) == 0;
  return shared && IsStillThere(fd.get(), path) ? std::optional(std::move(fd)) : std::nullopt;
}

}  // namespace tfdist::agent
