// Memory that other processes of this account may map as well: a memfd, sealed against every change of
// its size, so that no access to a mapping can end in SIGBUS. It has no name anywhere; the kernel
// frees it with the last process that maps it.
#pragma once

#include <cstddef>
#include <span>

#include "base/unique_fd.h"

namespace tfdist::runtime {

// A sealed memfd of zeros, all of its memory already there: later there would be no way to report a
// lack of it. Throws Error(kRun).
UniqueFd CreateSealed(size_t bytes);
// How large what another process passed is. Throws Error(kRun) when it is not a sealed memfd of this
// account.
size_t SizeOfSealed(const UniqueFd& fd);

// Owns a mapping of all of it. Movable. What another process maps it may change at any time.
class SharedMemory {
 public:
  // Zeros. Where the system gives none to share, it is memory of this process alone, and fd() is
  // invalid. Throws std::bad_alloc.
  explicit SharedMemory(size_t bytes);
  // What another process passed. Throws Error(kRun).
  static SharedMemory Open(UniqueFd fd);

  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&&) = delete;
  ~SharedMemory();

  [[nodiscard]] std::span<std::byte> bytes() const { return bytes_; }
  [[nodiscard]] const UniqueFd& fd() const { return fd_; }

 private:
  SharedMemory(UniqueFd fd, size_t bytes);

  UniqueFd fd_;
  std::span<std::byte> bytes_;
};

}  // namespace tfdist::runtime
