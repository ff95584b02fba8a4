#include "agent/stdio/stdio_messages.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>

#include "base/error.h"
#include "base/failures.h"
#include "base/file.h"

namespace tfdist::agent {
namespace {

constexpr size_t kLengthBytes = 4;

// False at the end of the input.
bool ReadExactly(char* bytes, size_t size) {
  while (size > 0) {
    const ssize_t got = read(STDIN_FILENO, bytes, size);
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

std::optional<protocol::Message> ReadFromStdin() {
  protocol::PieceReader pieces;
  while (true) {
    std::array<char, kLengthBytes> head{};
    if (!ReadExactly(head.data(), head.size())) return std::nullopt;
    const size_t length = Length(head);
    if (length == 0 || length > protocol::kMaxFrameBytes) {
      throw ProtocolError(Phase::kControl, "frame of an impossible length");
    }
    std::string piece(length, '\0');
    if (!ReadExactly(piece.data(), piece.size())) return std::nullopt;
    if (auto message = pieces.Feed(piece)) return message;
  }
}

void WriteToStdout(const protocol::Message& message) {
  WriteAll(STDOUT_FILENO, protocol::Frames(message), "stdout");
}

}  // namespace tfdist::agent
