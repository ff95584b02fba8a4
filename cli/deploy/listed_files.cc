#include "cli/deploy/listed_files.h"

#include <fcntl.h>

#include <cerrno>

namespace tfdist::cli {
namespace {

namespace fs = std::filesystem;

bool IsUnchanged(const struct stat& a, const struct stat& b) {
  const auto is_same = [](const timespec& x, const timespec& y) {
    return x.tv_sec == y.tv_sec && x.tv_nsec == y.tv_nsec;
  };
  return a.st_ino == b.st_ino && a.st_size == b.st_size && is_same(a.st_mtim, b.st_mtim) &&
         is_same(a.st_ctim, b.st_ctim);
}

}  // namespace

Error HasChanged(const std::string& name) {
  return {Phase::kFiles, name + " has changed since it was looked at",
          "start again once nothing writes it"};
}

UniqueFd OpenListed(const fs::path& path, int flags) {
  UniqueFd fd(open(path.c_str(), flags | O_CLOEXEC));
  if (fd.valid()) return fd;
  if (errno == ENOENT || errno == ELOOP || errno == ENOTDIR) throw HasChanged(path.string());
  const bool is_closed = errno == EACCES;
  throw Error(
      Phase::kFiles, WithErrno("cannot open " + path.string(), errno),
      is_closed ? "chmod u+r makes it readable; in a workdir, a line in .tfdistignore leaves it out"
                : "");
}

void CheckUnchanged(const fs::path& path, const struct stat& listed) {
  struct stat now {};
  if (lstat(path.c_str(), &now) != 0 || !IsUnchanged(now, listed)) throw HasChanged(path.string());
}

}  // namespace tfdist::cli
