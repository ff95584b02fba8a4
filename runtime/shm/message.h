// Messages in a ring: a preamble of 16 bytes (`u32` mark, `u32` header bytes, `u64` payload bytes),
// the header, padding to 64 bytes, the payload, padding to 64 bytes. A header is in the ring as a
// whole before it is shown; a payload may be larger than the ring and passes through it in pieces.
//
// A piece ends at a multiple of 64 bytes from the payload's beginning, the last one where the
// payload ends: no number is ever cut in two, if the receiver gives back whole ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/shm/ring.h"

namespace tfdist::runtime::shm {

// What a receiver takes; a peer that says more has broken the connection.
inline constexpr size_t kMaxHeaderBytes = size_t{64} * 1024;
struct Limits {
  size_t max_header_bytes = kMaxHeaderBytes;  // more is cut to that: a header must fit into a ring
  uint64_t max_payload_bytes = uint64_t{4} * 1024 * 1024 * 1024;
};

class MessageWriter {
 public:
  explicit MessageWriter(RingWriter ring) : ring_(ring) {}

  // Begins a message; false when the ring has no room for its header yet. The one before is whole.
  bool TryBegin(std::span<const std::byte> header, uint64_t payload_bytes);
  // Room for the next bytes of the payload, in one piece; empty when there is none now.
  std::span<std::byte> Space();
  // The first `bytes` of `Space` are written.
  void Commit(size_t bytes);
  // Of the payload, bytes to come; 0: the message is whole.
  [[nodiscard]] uint64_t remaining() const { return remaining_; }

  // Whether `TryBegin` succeeds, whatever the header; within a message, whether there is room.
  bool Ready();
  // When the reader's position has come so far it is worth waking up.
  [[nodiscard]] uint64_t WakePosition() const;
  // All that the reader can see, in bytes since the beginning.
  [[nodiscard]] uint64_t position() const { return ring_.position(); }

 private:
  RingWriter ring_;
  uint64_t remaining_ = 0;
};

class MessageReader {
 public:
  MessageReader(RingReader ring, Limits limits);

  struct Incoming {
    std::span<const std::byte> header;  // a copy, valid until the next message
    uint64_t payload_bytes = 0;
  };
  // The next message, once its header is there. The payload before must have been released to its
  // end. Throws Error(kRun) on anything that is no message of ours or beyond the limits.
  std::optional<Incoming> TryReceive();
  // The next bytes of the payload that lie in one piece; empty when there are none now. The other
  // side can still change them while they are read: numbers at most, never a length or an index.
  std::span<const std::byte> Payload();
  // Gives the first `bytes` of `Payload` back; a payload is over when all of it was.
  void Release(size_t bytes);
  [[nodiscard]] uint64_t remaining() const { return remaining_; }

  // Whether `TryReceive` has a message; within one, whether `Payload` has bytes.
  bool Ready();
  [[nodiscard]] uint64_t WakePosition() const;
  [[nodiscard]] uint64_t position() const { return ring_.position(); }

 private:
  struct Sizes {
    uint64_t header_bytes;
    uint64_t payload_bytes;
  };
  std::optional<Sizes> NextSizes();

  RingReader ring_;
  Limits limits_;
  std::vector<std::byte> header_;
  uint64_t remaining_ = 0;
  uint64_t wanted_ = kAlignment;  // bytes that the next header needs, as far as is known
};

}  // namespace tfdist::runtime::shm
