#include "agent/stdio/stdio_messages.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <string>

#include "base/error.h"
#include "base/failures.h"
#include "base/file.h"

namespace tfdist::agent {
namespace {

constexpr size_t kMostAtOnceBytes = 64 * 1024;

void WaitForInput(int fd, TimePoint deadline) {
  while (true) {
    pollfd input{fd, POLLIN, 0};
    const TimePoint now = SystemClock().Now();
    if (now >= deadline) throw Error(Phase::kControl, "the next message did not come in time");
    if (poll(&input, 1, PollTimeout(now, deadline)) > 0) return;
  }
}

// False at the end of the input.
bool ReadExactly(int fd, TimePoint deadline, char* bytes, size_t size) {
  while (size > 0) {
    WaitForInput(fd, deadline);
    const ssize_t got = read(fd, bytes, size);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    bytes += got;
    size -= static_cast<size_t>(got);
  }
  return true;
}

}  // namespace

std::optional<protocol::Message> ReadMessage(int fd, TimePoint deadline) {
  protocol::FrameReader frames;
  while (true) {
    if (auto message = frames.Next()) return message;
    std::string bytes(std::min(frames.Lacks(), kMostAtOnceBytes), '\0');
    if (!ReadExactly(fd, deadline, bytes.data(), bytes.size())) return std::nullopt;
    frames.Feed(bytes);
  }
}

void WriteToStdout(const protocol::Message& message) {
  WriteAll(STDOUT_FILENO, protocol::Frame(message), "stdout");
}

}  // namespace tfdist::agent
