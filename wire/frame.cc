#include "wire/frame.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/failures.h"

namespace tfdist::protocol {
namespace {

constexpr size_t kLengthBytes = 4;
// Bits of the flag byte.
constexpr char kLast = 1;
constexpr char kFirst = 2;

void AppendLength(std::string& out, size_t length) {
  for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<char>(length >> shift));
}

size_t ReadLength(std::string_view bytes) {
  size_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) {
    length = length << 8 | static_cast<unsigned char>(bytes[i]);
  }
  return length;
}

std::vector<std::string> Cut(const Message& message, char first_flag) {
  const std::string bytes = Encode(message);
  constexpr size_t kPayload = kMaxFrameBytes - 1;
  std::vector<std::string> pieces;
  for (size_t start = 0; start < bytes.size(); start += kPayload) {
    const char first = start == 0 ? first_flag : 0;
    const char last = start + kPayload >= bytes.size() ? kLast : 0;
    pieces.push_back(static_cast<char>(first | last) + bytes.substr(start, kPayload));
  }
  return pieces;
}

}  // namespace

std::vector<std::string> Pieces(const Message& message) { return Cut(message, kFirst); }

std::string Frames(const Message& message) {
  std::string out;
  // A stream loses no piece, and an agent of an earlier tfdist knows no other flag than kLast.
  for (const std::string& piece : Cut(message, 0)) {
    AppendLength(out, piece.size());
    out += piece;
  }
  return out;
}

std::optional<Message> PieceReader::Feed(std::string_view piece, size_t max_bytes) {
  if (piece.empty()) throw ProtocolError(Phase::kControl, "empty frame");
  const char flag = piece.front();
  piece.remove_prefix(1);
  if (flag < 0 || flag > (kFirst | kLast)) {
    throw ProtocolError(Phase::kControl, "frame with an unknown flag");
  }
  if ((flag & kFirst) != 0) collected_.clear();  // the sender gave the message before up half-way
  if (collected_.size() + piece.size() > max_bytes) {
    collected_.clear();
    throw ProtocolError(Phase::kControl, fmt::format("message longer than {} bytes", max_bytes));
  }
  collected_ += piece;
  if ((flag & kLast) == 0) return std::nullopt;
  const std::string whole = std::exchange(collected_, {});
  return Decode(whole);
}

void FrameReader::Feed(std::string_view bytes) {
  if (consumed_ > 0) {
    buffer_.erase(0, consumed_);
    consumed_ = 0;
  }
  buffer_ += bytes;
}

std::optional<Message> FrameReader::Next() {
  while (true) {
    const std::string_view rest = std::string_view(buffer_).substr(consumed_);
    if (rest.size() < kLengthBytes) return std::nullopt;
    const size_t length = ReadLength(rest);
    if (length == 0 || length > kMaxFrameBytes) {
      throw ProtocolError(Phase::kControl,
                          fmt::format("frame of an impossible length, {}", length));
    }
    if (rest.size() < kLengthBytes + length) return std::nullopt;
    consumed_ += kLengthBytes + length;
    if (auto message = pieces_.Feed(rest.substr(kLengthBytes, length))) return message;
  }
}

}  // namespace tfdist::protocol
