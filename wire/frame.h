// How messages travel on a byte stream (SSH channel, unix socket) and between agents (ZeroMQ).
//
// Frame: 4 bytes big-endian length (1..kMaxFrameBytes), 1 byte of flags (1: last piece of its
// message), then bytes. A message longer than a frame goes in several, one after the other. Over
// ZeroMQ the length is the message's own, and the first piece has the flag 2 as well: there a
// message may be given up half-way.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "wire/protocol.h"

namespace tfdist::protocol {

inline constexpr size_t kMaxFrameBytes =
    64 * 1024 - 512;  // flag included; fits ZMQ_MAXMSGSIZE 64 KiB
// Bounds what a peer can make us hold.
inline constexpr size_t kMaxMessageBytes = 16 * 1024 * 1024;

// For ZeroMQ: the pieces of one message, each flag byte + bytes.
std::vector<std::string> Pieces(const Message& message);
// The frames of one message, as one text for a stream.
std::string Frames(const Message& message);

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
  void Feed(std::string_view bytes);
  // Throws ProtocolError on an impossible length or a malformed message: the stream is lost then.
  std::optional<Message> Next();

 private:
  std::string buffer_;
  size_t consumed_ = 0;
  PieceReader pieces_;
};

}  // namespace tfdist::protocol
