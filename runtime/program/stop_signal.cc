#include "runtime/program/stop_signal.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>

#include "base/error.h"

namespace tfdist::runtime {
namespace {

// A handler has no other way to its descriptor.
std::atomic<int> stop_fd{-1};
static_assert(std::atomic<int>::is_always_lock_free, "read in a signal handler");

void OnStopSignal(int) {
  const int saved_errno = errno;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t put = write(stop_fd, &one, sizeof one);
  errno = saved_errno;
}

}  // namespace

int CatchStopSignals() {
  const int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (fd < 0) throw Error(Phase::kInternal, WithErrno("eventfd", errno));
  stop_fd = fd;
  struct sigaction action {};
  action.sa_handler = OnStopSignal;
  action.sa_flags = SA_RESTART;
  for (const int signal : {SIGTERM, SIGINT}) {
    if (sigaction(signal, &action, nullptr) != 0) {
      throw Error(Phase::kInternal, WithErrno("sigaction", errno));
    }
  }
  return fd;
}

}  // namespace tfdist::runtime
