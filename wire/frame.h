// How messages travel on a byte stream (SSH channel, unix socket) and between agents (ZeroMQ).
//
// Stream: 4 bytes big-endian length of what follows, 1 byte for the form of the frame, then the message.
// ZeroMQ: pieces, each 1 byte of flags (1: last piece of its message, 2: first) and bytes of the message. A longer
// message goes in several, one after the other, and may be given up half-way.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "wire/protocol.h"

namespace tfdist::protocol {

inline constexpr size_t kMaxPieceBytes =
    64 * 1024 - 512;  // flags included; fits ZMQ_MAXMSGSIZE 64 KiB
// Bounds what a peer can make us hold.
inline constexpr size_t kMaxMessageBytes = 16 * 1024 * 1024;

// The other end speaks version 1, whose frames had another form.
class EarlierProtocol : public ProtocolError {
 public:
  EarlierProtocol()
      : ProtocolError(Phase::kControl, "it speaks protocol 1, of an earlier tfdist") {}
};

// For a stream: what goes before the message's payload.
std::string FrameHead(const Message& message);
// The payload, too.
std::string Frame(const Message& message);

// For ZeroMQ.
std::vector<std::string> Pieces(const Message& message);

// Puts messages together again from pieces of one peer, in order.
class PieceReader {
 public:
  // Throws ProtocolError when the message grows past `max_bytes` or is malformed.
  std::optional<Message> Feed(std::string_view piece, size_t max_bytes = kMaxMessageBytes);

 private:
  std::string collected_;
};

// Cuts a byte stream into messages. Feed what was read, then take messages until nullopt.
class FrameReader {
 public:
  void Feed(std::string_view bytes) { Buffer() += bytes; }
  // Instead of Feed: what is appended here was read. Valid until the next call.
  std::string& Buffer();
  // Throws ProtocolError on an impossible length or a malformed message: the stream is lost then.
  std::optional<Message> Next();
  // Before Next: what other programs have printed between two messages, of which no byte can begin a frame. After a payload without a
  // checksum nothing is taken: the text may be the end of it, cut off by what was printed into it.
  std::string TakeStrayText();
  // After nullopt: how many bytes are to come at least. No more belong to the message at hand.
  [[nodiscard]] size_t Lacks() const;

 private:
  [[nodiscard]] std::string_view Rest() const;

  std::string buffer_;
  size_t consumed_ = 0;
  bool is_whole_ = true;  // the last message
};

}  // namespace tfdist::protocol
