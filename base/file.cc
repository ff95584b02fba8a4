#include "base/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.h"
#include "base/failpoint.h"

namespace tfdist {
namespace {

[[noreturn]] void Fail(std::string_view what, const std::filesystem::path& path, int error_number) {
  throw Error(Phase::kFiles, WithErrno(fmt::format("{} {}", what, path.string()), error_number));
}

}  // namespace

void SyncFolder(const std::filesystem::path& folder) {
  const UniqueFd fd = OpenFile(folder, O_RDONLY | O_DIRECTORY);
  // Some network file systems do not sync folders; the rename itself has succeeded.
  if (fsync(fd.get()) != 0 && errno != EINVAL) Fail("cannot sync", folder, errno);
}

UniqueFd OpenFile(const std::filesystem::path& path, int flags, mode_t mode) {
  UniqueFd fd(open(path.c_str(), flags | O_CLOEXEC, mode));
  if (!fd.valid()) Fail("cannot open", path, errno);
  return fd;
}

namespace {

// Invalid: there is none.
UniqueFd OpenIfExists(const std::filesystem::path& path, int flags) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | flags));
  if (!fd.valid() && errno != ENOENT) Fail("cannot open", path, errno);
  return fd;
}

std::string ReadAll(const UniqueFd& fd, const std::filesystem::path& path, size_t limit_bytes) {
  std::string content;
  char buffer[16384];
  while (true) {
    const ssize_t got = read(fd.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) Fail("cannot read", path, errno);
    if (got == 0) return content;
    content.append(buffer, static_cast<size_t>(got));
    if (content.size() > limit_bytes) {
      throw Error(Phase::kFiles,
                  fmt::format("{} is longer than {} bytes", path.string(), limit_bytes));
    }
  }
}

void CheckIsOwnFile(const UniqueFd& fd, const std::filesystem::path& path) {
  struct stat info {};
  if (fstat(fd.get(), &info) != 0) Fail("cannot look at", path, errno);
  if (!S_ISREG(info.st_mode) || info.st_uid != geteuid()) {
    throw Error(Phase::kFiles, fmt::format("{} is no file of this account", path.string()));
  }
}

}  // namespace

std::optional<std::string> ReadFileIfExists(const std::filesystem::path& path, size_t limit_bytes) {
  const UniqueFd fd = OpenIfExists(path, 0);
  if (!fd.valid()) return std::nullopt;
  return ReadAll(fd, path, limit_bytes);
}

std::optional<std::string> ReadOwnFileIfExists(const std::filesystem::path& path,
                                               size_t limit_bytes) {
  const UniqueFd fd = OpenIfExists(path, O_NOFOLLOW | O_NONBLOCK);
  if (!fd.valid()) return std::nullopt;
  CheckIsOwnFile(fd, path);
  return ReadAll(fd, path, limit_bytes);
}

void WriteAll(int fd, std::string_view bytes, std::string_view name) {
  while (!bytes.empty()) {
    const ssize_t put = write(fd, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) Fail("cannot write", name, errno);
    bytes.remove_prefix(static_cast<size_t>(put));
  }
}

void ReplaceFile(const std::filesystem::path& path, std::string_view content, mode_t mode) {
  std::string aside = path.string() + ".XXXXXX";
  const UniqueFd fd(mkostemp(aside.data(), O_CLOEXEC));  // born 0600
  if (!fd.valid()) Fail("cannot create a file beside", path, errno);
  try {
    if (fchmod(fd.get(), mode) != 0) Fail("cannot set the mode of", aside, errno);
    WriteAll(fd.get(), content, aside);
    FailPoint("file written aside");
    if (fsync(fd.get()) != 0) Fail("cannot sync", aside, errno);
    FailPoint("file synced aside");
    if (rename(aside.c_str(), path.c_str()) != 0) Fail("cannot replace", path, errno);
    FailPoint("file renamed");
  } catch (...) {
    unlink(aside.c_str());
    throw;
  }
  SyncFolder(path.has_parent_path() ? path.parent_path() : ".");
}

void MakePrivateFolder(const std::filesystem::path& path) {
  // Of one that may not be looked at, mkdir(2) says why.
  if (std::error_code none;
      path.has_parent_path() && !std::filesystem::exists(path.parent_path(), none)) {
    MakePrivateFolder(path.parent_path());
  }
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    const int error_number = errno;
    const std::string cause =
        WithErrno(fmt::format("cannot make folder {}", path.string()), error_number);
    throw Error(Phase::kFiles, cause,
                error_number == EACCES
                    ? fmt::format("on that machine, chmod u+rwx {}", path.parent_path().string())
                    : "");
  }
  const UniqueFd fd = OpenFile(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  struct stat info {};
  if (fstat(fd.get(), &info) != 0) Fail("cannot look at", path, errno);
  if (info.st_uid != geteuid()) {
    throw Error(Phase::kFiles, fmt::format("{} belongs to another account", path.string()));
  }
  if ((info.st_mode & 077) != 0 && fchmod(fd.get(), 0700) != 0) {
    Fail("cannot make private", path, errno);
  }
}

}  // namespace tfdist
