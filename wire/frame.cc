#include "wire/frame.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/failures.h"
#include "wire/length.h"

namespace tfdist::protocol {
namespace {

// The byte after a frame's length. Smaller ones were flags in version 1, which ends at any other.
constexpr unsigned char kForm = 4;
constexpr size_t kBeforeMessage = kLengthBytes + sizeof kForm;

// The first byte of a length, of which the largest is 0x01000000. No text has one of them.
constexpr std::string_view kFirstOfLength("\0\1", 2);
static_assert(kMaxMessageBytes >> 24 == 1);

// Bits of a piece's flags.
constexpr unsigned char kLast = 1;
constexpr unsigned char kFirst = 2;

// The only piece of its message.
std::string WholePiece(std::string_view head, std::string_view payload) {
  std::string piece;
  piece.reserve(1 + head.size() + payload.size());
  piece.push_back(static_cast<char>(kFirst | kLast));
  return piece.append(head).append(payload);
}

// Of a whole frame that begins with these kBeforeMessage bytes.
size_t SizeOfFrame(std::string_view bytes) {
  const auto form = static_cast<unsigned char>(bytes[kLengthBytes]);
  const size_t length = ReadLength(bytes);
  const bool is_possible = length > 0 && length <= kMaxMessageBytes;
  if (is_possible && form < kForm) throw EarlierProtocol();
  if (!is_possible || form > kForm) {
    throw ProtocolError(Phase::kControl, fmt::format("frame of an impossible length, {}", length));
  }
  return kLengthBytes + length;
}

}  // namespace

std::string FrameHead(const Message& message) {
  const std::string head = Head(message, true);
  std::string out;
  out.reserve(kBeforeMessage + head.size());
  AppendLength(out, sizeof kForm + head.size() + message.payload.size());
  out.push_back(static_cast<char>(kForm));
  return out += head;
}

std::string Frame(const Message& message) { return FrameHead(message) + message.payload; }

std::vector<std::string> Pieces(const Message& message) {
  constexpr size_t kMost = kMaxPieceBytes - 1;
  const std::string head = Head(message);
  if (head.size() + message.payload.size() <= kMost) return {WholePiece(head, message.payload)};
  const std::string bytes = head + message.payload;
  std::vector<std::string> pieces;
  for (size_t start = 0; start < bytes.size(); start += kMost) {
    const int first = start == 0 ? kFirst : 0;
    const int last = start + kMost >= bytes.size() ? kLast : 0;
    pieces.push_back(static_cast<char>(first | last) + bytes.substr(start, kMost));
  }
  return pieces;
}

std::optional<Message> PieceReader::Feed(std::string_view piece, size_t max_bytes) {
  if (piece.empty()) throw ProtocolError(Phase::kControl, "empty piece of a message");
  const auto flags = static_cast<unsigned char>(piece.front());
  piece.remove_prefix(1);
  if (flags > (kFirst | kLast)) {
    throw ProtocolError(Phase::kControl, "piece of a message with an unknown flag");
  }
  if ((flags & kFirst) != 0) collected_.clear();  // the sender gave the message before up half-way
  if (collected_.size() + piece.size() > max_bytes) {
    collected_.clear();
    throw ProtocolError(Phase::kControl, fmt::format("message longer than {} bytes", max_bytes));
  }
  if (flags == (kFirst | kLast)) return Decode(piece);
  collected_ += piece;
  if ((flags & kLast) == 0) return std::nullopt;
  const std::string whole = std::exchange(collected_, {});
  return Decode(whole);
}

std::string& FrameReader::Buffer() {
  // The rest moves to the front only where it is shorter than what it takes the place of.
  if (consumed_ >= buffer_.size() - consumed_) {
    buffer_.erase(0, consumed_);
    consumed_ = 0;
  }
  return buffer_;
}

std::optional<Message> FrameReader::Next() {
  if (Lacks() > 0) return std::nullopt;
  const std::string_view rest = Rest();
  const size_t size = SizeOfFrame(rest);
  consumed_ += size;
  return Decode(rest.substr(kBeforeMessage, size - kBeforeMessage), &is_whole_);
}

std::string FrameReader::TakeStrayText() {
  const std::string_view rest = Rest();
  if (!is_whole_) return {};
  const size_t size = std::min(rest.size(), rest.find_first_of(kFirstOfLength));
  consumed_ += size;
  return std::string(rest.substr(0, size));
}

size_t FrameReader::Lacks() const {
  const std::string_view rest = Rest();
  const size_t wanted = rest.size() < kBeforeMessage ? kBeforeMessage : SizeOfFrame(rest);
  return wanted - std::min(wanted, rest.size());
}

std::string_view FrameReader::Rest() const { return std::string_view(buffer_).substr(consumed_); }

}  // namespace tfdist::protocol
