#include "agent/log/log_copy.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace tfdist::agent {
namespace {

constexpr size_t kStepBytes = 1 << 20;
constexpr mode_t kFolderMode = 0777;
constexpr mode_t kFileMode = 0666;
constexpr uid_t kNobody = 65534;  // what a file server makes of root

[[noreturn]] void FailToCopy(std::string_view what, const std::filesystem::path& path) {
  const int error_number = errno;
  throw Error(Phase::kFiles, WithErrno(std::string(what) + " " + path.string(), error_number));
}

struct Folder {
  UniqueFd fd;
  uid_t parent_owner = 0;
};

// Ours; or of the owner of the shared folder, as a file server may call everybody who writes there.
bool MayWriteTo(const struct stat& info, uid_t parent_owner) {
  return info.st_uid == geteuid() || info.st_uid == parent_owner ||
         (geteuid() == 0 && info.st_uid == kNobody);
}

[[noreturn]] void FailOtherAccounts(const std::filesystem::path& path) {
  throw Error(Phase::kFiles, path.string() + " belongs to another account");
}

// Others may write to a shared folder, too: no link of theirs is followed.
Folder OpenFolder(const CopyTarget& target) {
  const UniqueFd parent(open(target.parent.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  struct stat info {};
  if (!parent.valid() || fstat(parent.get(), &info) != 0) FailToCopy("cannot open", target.parent);
  const uid_t parent_owner = info.st_uid;
  const char* name = target.folder.c_str();
  const bool made = mkdirat(parent.get(), name, kFolderMode & ~target.umask) == 0;
  if (!made && errno != EEXIST) FailToCopy("cannot make", target.parent / target.folder);
  UniqueFd folder(openat(parent.get(), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder.valid() || fstat(folder.get(), &info) != 0) {
    FailToCopy("cannot open", target.parent / target.folder);
  }
  if (!made && !MayWriteTo(info, parent_owner)) FailOtherAccounts(target.parent / target.folder);
  // This process's own umask keeps everything private.
  if (made) fchmod(folder.get(), kFolderMode & ~target.umask);
  return {std::move(folder), parent_owner};
}

}  // namespace

LogCopy::LogCopy(const std::filesystem::path& task_folder, CopyTarget target)
    : reader_(task_folder), target_(std::move(target)) {}

void LogCopy::Open() {
  const Folder folder = OpenFolder(target_);
  const std::filesystem::path path = target_.parent / target_.folder / target_.file;
  UniqueFd file(openat(folder.fd.get(), target_.file.c_str(),
                       O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
  struct stat info {};
  if (!file.valid() || fstat(file.get(), &info) != 0) {
    FailToCopy("cannot open", path);
  }
  if (!S_ISREG(info.st_mode)) {
    errno = EINVAL;
    FailToCopy("not a file:", path);
  }
  // A second name would be that of a file which somebody wants us to overwrite.
  if (info.st_nlink > 1) throw Error(Phase::kFiles, path.string() + " has another name as well");
  if (!MayWriteTo(info, folder.parent_owner)) FailOtherAccounts(path);
  if (info.st_size == 0) fchmod(file.get(), kFileMode & ~target_.umask);
  offset_ = static_cast<uint64_t>(info.st_size);
  file_ = std::move(file);
}

bool LogCopy::Step(LogEnd end) {
  // Nothing is made on the server for a task that says nothing.
  if (!file_.valid() && reader_.Size(end) == 0) return false;
  if (!file_.valid()) Open();
  const protocol::LogPiece piece = reader_.Read(offset_, kStepBytes, end);
  if (piece.data.empty()) return false;
  Write(piece);
  return true;
}

void LogCopy::Write(const protocol::LogPiece& piece) {
  std::string_view text = piece.data;
  uint64_t offset = piece.offset;
  while (!text.empty()) {
    const ssize_t put = pwrite(file_.get(), text.data(), text.size(), static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) {
      const int error_number = put < 0 ? errno : EIO;
      file_.Reset();
      errno = error_number;
      FailToCopy("cannot write", target_.parent / target_.folder / target_.file);
    }
    text.remove_prefix(static_cast<size_t>(put));
    offset += static_cast<uint64_t>(put);
  }
  offset_ = offset;
}

}  // namespace tfdist::agent
