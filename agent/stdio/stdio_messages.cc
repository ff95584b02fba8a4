#include "agent/stdio/stdio_messages.h"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <string>

#include "base/error.h"
#include "base/failures.h"
#include "base/file.h"

namespace tfdist::agent {
namespace {

constexpr size_t kLengthBytes = 4;

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

size_t Length(const std::array<char, kLengthBytes>& bytes) {
  size_t length = 0;
  for (const char byte : bytes) length = length << 8 | static_cast<unsigned char>(byte);
  return length;
}

}  // namespace

std::optional<protocol::Message> ReadMessage(int fd, TimePoint deadline) {
  protocol::PieceReader pieces;
  while (true) {
    std::array<char, kLengthBytes> head{};
    if (!ReadExactly(fd, deadline, head.data(), head.size())) return std::nullopt;
    const size_t length = Length(head);
    if (length == 0 || length > protocol::kMaxFrameBytes) {
      throw ProtocolError(Phase::kControl, "frame of an impossible length");
    }
    std::string piece(length, '\0');
    if (!ReadExactly(fd, deadline, piece.data(), piece.size())) return std::nullopt;
    if (auto message = pieces.Feed(piece)) return message;
  }
}

void WriteToStdout(const protocol::Message& message) {
  WriteAll(STDOUT_FILENO, protocol::Frames(message), "stdout");
}

}  // namespace tfdist::agent
