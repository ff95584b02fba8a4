// What lets a test move a host's wall clock: hosts in namespaces have that of the machine. The file that the environment names
// holds the seconds by which it is ahead, and is read at each look at the clock, so that a test can make it jump.
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <ctime>

namespace tfdist {
namespace {

// Read before main(), by one thread.
const char* const kSecondsAheadFile = getenv("TFDIST_TEST_CLOCK");

// 0 where there is no such file. Calls nothing that may look at a clock, or that a signal handler must not.
time_t SecondsAhead() {
  if (kSecondsAheadFile == nullptr) return 0;
  const int saved_errno = errno;
  char text[24] = {};
  const int file = open(kSecondsAheadFile, O_RDONLY | O_CLOEXEC);
  if (file >= 0) {
    if (read(file, text, sizeof text - 1) < 0) text[0] = '\0';
    close(file);
  }
  const auto seconds = static_cast<time_t>(strtoll(text, nullptr, 10));
  errno = saved_errno;
  return seconds;
}

}  // namespace
}  // namespace tfdist

// In place of the C library's, for the whole executable.
extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const int status = static_cast<int>(syscall(SYS_clock_gettime, clock, time));
  if (status == 0 && clock == CLOCK_REALTIME) time->tv_sec += tfdist::SecondsAhead();
  return status;
}
