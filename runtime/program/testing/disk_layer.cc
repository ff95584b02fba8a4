// A file layer between a program and the C library, by LD_PRELOAD: it sees every call that changes a folder, and can make the
// process die at one, or let it fail. Told by the environment:
//
//     TFDIST_TEST_DISK=FOLDER           what lies under it is watched; all else is passed on
//     TFDIST_TEST_DISK_RECORD=FILE      each change is appended once it is made, with the bytes written; disk_record.h reads it
//     TFDIST_TEST_DISK_KILL=K           SIGKILL at the K-th watched call of this process, a write half done
//     TFDIST_TEST_DISK_FAIL_ONE_IN=K    one call in K fails, drawn from a fixed seed: fsync with EIO, others with ENOSPC, a write half done
//
// `progress`, which is never synced and never trusted, is not watched.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <string_view>

#include "base/thread_annotations.h"

namespace {

using tfdist::Mutex;
using tfdist::MutexLock;

std::string Variable(const char* name) {
  const char* value = getenv(name);
  return value != nullptr ? value : "";
}

long NumberIn(const std::string& text) { return text.empty() ? 0 : std::stol(text); }

class DiskLayer {
 public:
  [[nodiscard]] bool Watches(std::string_view path) const {
    return !folder_.empty() && path.starts_with(folder_) && !path.ends_with("/progress");
  }
  void Opened(int fd, const std::string& path) {
    const MutexLock lock(mutex_);
    if (fd >= 0) paths_[fd] = path;
  }
  void Closed(int fd) {
    const MutexLock lock(mutex_);
    paths_.erase(fd);
  }
  // Of a file or folder that is watched; else "".
  std::string PathOf(int fd) {
    const MutexLock lock(mutex_);
    const auto found = paths_.find(fd);
    return found == paths_.end() ? "" : found->second;
  }

  enum class Order { kGoOn, kFail, kDie };
  // Before every watched call.
  Order Pass() {
    const MutexLock lock(mutex_);
    ++calls_;
    if (calls_ == kill_at_) return Order::kDie;
    return fail_one_in_ > 0 && random_() % fail_one_in_ == 0 ? Order::kFail : Order::kGoOn;
  }
  // What a call does that has no half: whether it may be made.
  bool MayGoOn(char kind, const std::string& path, int error) {
    const Order order = Pass();
    if (order == Order::kDie) Die(kind, path);
    errno = error;
    return order == Order::kGoOn;
  }
  [[noreturn]] void Die(char kind, const std::string& path) {
    Record('K', path, std::string(1, kind), 0, {});
    kill(getpid(), SIGKILL);
    while (true) pause();
  }
  // One write(2) to the end of the record: whole between those of other processes.
  void Record(char kind, const std::string& path, const std::string& other, off_t offset,
              std::string_view bytes) const {
    if (record_ < 0) return;
    std::string text = std::string(1, kind) + ' ' + path + ' ' + (other.empty() ? "-" : other) +
                       ' ' + std::to_string(offset) + ' ' + std::to_string(bytes.size()) + '\n';
    text += bytes;
    (void)!syscall(SYS_write, record_, text.data(), text.size());
  }

 private:
  static int OpenRecord() {
    const std::string file = Variable("TFDIST_TEST_DISK_RECORD");
    if (file.empty()) return -1;
    return static_cast<int>(
        syscall(SYS_open, file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  }

  const std::string folder_ = Variable("TFDIST_TEST_DISK");
  const int record_ = OpenRecord();
  const long kill_at_ = NumberIn(Variable("TFDIST_TEST_DISK_KILL"));
  const long fail_one_in_ = NumberIn(Variable("TFDIST_TEST_DISK_FAIL_ONE_IN"));
  Mutex mutex_;
  std::map<int, std::string> paths_ GUARDED_BY(mutex_);
  long calls_ GUARDED_BY(mutex_) = 0;
  std::minstd_rand random_ GUARDED_BY(mutex_);
};

DiskLayer& Layer() {
  static auto* const layer = new DiskLayer;  // outlives every thread
  return *layer;
}

// A call that names one path.
template <typename Call>
int OnPath(char kind, const char* path, Call call) {
  if (!Layer().Watches(path)) return call();
  if (!Layer().MayGoOn(kind, path, ENOSPC)) return -1;
  const int result = call();
  if (result >= 0) Layer().Record(kind, path, "", 0, {});
  return result;
}

template <typename Write>
ssize_t OnWrite(int fd, const char* bytes, size_t count, off_t offset, Write write) {
  const std::string path = Layer().PathOf(fd);
  if (path.empty() || count == 0) return write(bytes, count);
  const auto order = Layer().Pass();
  const size_t part = order == DiskLayer::Order::kGoOn ? count : count / 2;
  const ssize_t put = write(bytes, part);
  if (put > 0) Layer().Record('W', path, "", offset, {bytes, static_cast<size_t>(put)});
  if (order == DiskLayer::Order::kDie) Layer().Die('W', path);
  if (order == DiskLayer::Order::kGoOn) return put;
  errno = ENOSPC;
  return -1;
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  const auto make = [&] { return static_cast<int>(syscall(SYS_open, path, flags, mode)); };
  const int fd = (flags & O_CREAT) != 0 ? OnPath('C', path, make) : make();
  if (Layer().Watches(path)) Layer().Opened(fd, path);
  return fd;
}

int mkostemp(char* name, int flags) {
  using Function = int (*)(char*, int);
  static const auto next = reinterpret_cast<Function>(dlsym(RTLD_NEXT, "mkostemp"));
  const std::string wanted = name;
  if (Layer().Watches(wanted) && !Layer().MayGoOn('C', wanted, ENOSPC)) return -1;
  const int fd = next(name, flags);
  if (fd >= 0 && Layer().Watches(wanted)) {
    Layer().Opened(fd, name);
    Layer().Record('C', name, "", 0, {});
  }
  return fd;
}

int close(int fd) {
  Layer().Closed(fd);
  return static_cast<int>(syscall(SYS_close, fd));
}

ssize_t write(int fd, const void* bytes, size_t count) {
  return OnWrite(
      fd, static_cast<const char*>(bytes), count, lseek(fd, 0, SEEK_CUR),
      [fd](const char* from, size_t size) { return syscall(SYS_write, fd, from, size); });
}

ssize_t pwrite(int fd, const void* bytes, size_t count, off_t offset) {
  return OnWrite(fd, static_cast<const char*>(bytes), count, offset,
                 [fd, offset](const char* from, size_t size) {
                   return syscall(SYS_pwrite64, fd, from, size, offset);
                 });
}

int fsync(int fd) {
  const std::string path = Layer().PathOf(fd);
  if (!path.empty() && !Layer().MayGoOn('S', path, EIO)) return -1;
  const auto result = static_cast<int>(syscall(SYS_fsync, fd));
  if (result == 0 && !path.empty()) Layer().Record('S', path, "", 0, {});
  return result;
}

int rename(const char* from, const char* to) {
  const bool watched = Layer().Watches(to);
  if (watched && !Layer().MayGoOn('R', to, ENOSPC)) return -1;
  const auto result = static_cast<int>(syscall(SYS_rename, from, to));
  if (result == 0 && watched) Layer().Record('R', from, to, 0, {});
  return result;
}

int mkdir(const char* path, mode_t mode) {
  return OnPath('M', path, [&] { return static_cast<int>(syscall(SYS_mkdir, path, mode)); });
}

int unlink(const char* path) {
  return OnPath('U', path, [&] { return static_cast<int>(syscall(SYS_unlink, path)); });
}

int remove(const char* path) {
  return OnPath('U', path, [&] {
    const long result = syscall(SYS_unlink, path);
    return static_cast<int>(result != 0 && errno == EISDIR ? syscall(SYS_rmdir, path) : result);
  });
}

}  // extern "C"
