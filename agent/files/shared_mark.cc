#include "agent/files/shared_mark.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/error.h"
#include "base/unique_fd.h"

namespace tfdist::agent {
namespace {

constexpr size_t kLongestMark = 64;

// Nothing that the CLI says leads out of the folder.
std::string FileOf(const std::string& path, const std::string& mark) {
  const bool plain = !mark.empty() && mark.size() <= kLongestMark &&
                     std::all_of(mark.begin(), mark.end(), [](char c) {
                       return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
                     });
  if (!plain || path.empty() || path.front() != '/') {
    throw Error(Phase::kFiles, "no mark for a shared folder");
  }
  return path + "/.tfdist-" + mark;
}

// Why the folder cannot be used; empty: it can.
std::string Obstacle(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return WithErrno(path, errno);
  return S_ISDIR(info.st_mode) ? "" : path + ": not a folder";
}

}  // namespace

protocol::SharedFolder MakeMark(const std::string& path, const std::string& mark) {
  const std::string file = FileOf(path, mark);
  if (const std::string why = Obstacle(path); !why.empty()) return {false, why};
  const UniqueFd made(
      open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!made.valid()) return {false, WithErrno(path, errno)};
  return {true, ""};
}

protocol::SharedFolder FindMark(const std::string& path, const std::string& mark) {
  const std::string file = FileOf(path, mark);
  if (const std::string why = Obstacle(path); !why.empty()) return {false, why};
  struct stat info {};
  if (lstat(file.c_str(), &info) == 0) return {true, ""};
  return {false, errno == ENOENT ? "" : WithErrno(path, errno)};
}

void RemoveMark(const std::string& path, const std::string& mark) {
  unlink(FileOf(path, mark).c_str());
}

}  // namespace tfdist::agent
