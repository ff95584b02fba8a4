#include "runtime/common/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <new>
#include <string>
#include <utility>

#include "base/error.h"

namespace tfdist::runtime {
namespace {

// The third: nobody takes the others away, or adds one that stops us from writing.
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

[[noreturn]] void ThrowErrno(const char* what) {
  throw Error(Phase::kRun, WithErrno(std::string("shared memory: ") + what, errno));
}

// Without a descriptor: this process's own. Populated: the first steps are not slowed down by a page
// fault for every 4 KiB.
std::span<std::byte> Map(const UniqueFd& fd, size_t bytes) {
  if (bytes == 0) return {};
  const int sharing = fd.valid() ? MAP_SHARED | MAP_POPULATE : MAP_PRIVATE | MAP_ANONYMOUS;
  void* const begin = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, sharing, fd.get(), 0);
  if (begin == MAP_FAILED) throw std::bad_alloc();
  return {static_cast<std::byte*>(begin), bytes};
}

UniqueFd SealedIfPossible(size_t bytes) {
  try {
    return CreateSealed(bytes);
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

UniqueFd CreateSealed(size_t bytes) {
  UniqueFd fd(memfd_create("tfdist-shm", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) ThrowErrno("memfd_create");
  if (fchmod(fd.get(), 0600) != 0)
    ThrowErrno("fchmod");  // else 0777, for one that opens it in /proc
  const int error = posix_fallocate(fd.get(), 0, static_cast<off_t>(bytes));
  if (error != 0) {
    errno = error;
    ThrowErrno("no memory");
  }
  if (fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) ThrowErrno("F_ADD_SEALS");
  return fd;
}

size_t SizeOfSealed(const UniqueFd& fd) {
  struct stat status {};
  if (fstat(fd.get(), &status) != 0) ThrowErrno("fstat");
  // F_GET_SEALS fails with EINVAL on all but memfds (and files of hugetlbfs).
  const int seals = fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0) ThrowErrno("what was passed cannot be sealed");
  if ((seals & (F_SEAL_SHRINK | F_SEAL_GROW)) != (F_SEAL_SHRINK | F_SEAL_GROW)) {
    throw Error(Phase::kRun, "shared memory: what was passed could still change its size");
  }
  if (!S_ISREG(status.st_mode) || status.st_uid != geteuid()) {
    throw Error(Phase::kRun, "shared memory: what was passed is of another owner");
  }
  return static_cast<size_t>(status.st_size);
}

SharedMemory::SharedMemory(size_t bytes) : SharedMemory(SealedIfPossible(bytes), bytes) {}

SharedMemory::SharedMemory(UniqueFd fd, size_t bytes)
    : fd_(std::move(fd)), bytes_(Map(fd_, bytes)) {}

SharedMemory SharedMemory::Open(UniqueFd fd) {
  const size_t bytes = SizeOfSealed(fd);
  try {
    return {std::move(fd), bytes};
  } catch (const std::bad_alloc&) {
    ThrowErrno("mmap");
  }
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : fd_(std::move(other.fd_)), bytes_(std::exchange(other.bytes_, {})) {}

SharedMemory::~SharedMemory() {
  if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
}

}  // namespace tfdist::runtime
