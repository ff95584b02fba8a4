// Messages in a ring: a preamble of 16 bytes (`u32` mark, `u32` header bytes, `u64` payload bytes),
// the header, padding to 64 bytes, the payload, padding to 64 bytes. A message is in the ring as a
// whole before it is shown, and is read where it lies.
//
// A payload in memory that both sides map is not copied into the ring. Such a message is marked,
// and a `u64` behind the preamble holds the payload's offset in that memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/shm/ring.h"

namespace tfdist::runtime::shm {

class MessageWriter {
 public:
  explicit MessageWriter(RingWriter ring) : ring_(ring) {}

  // Whether there is room for such a message now. Throws Error(kInternal) for one that the ring
  // cannot ever hold. Of a placed payload nothing needs room.
  bool HasRoomFor(size_t header_bytes, size_t payload_bytes);
  // False when there is no room: nothing was written.
  bool TrySend(std::span<const std::byte> header, std::span<const std::byte> payload);
  // The same in two steps, for a payload that is brought together in the ring. Where it belongs, to
  // be written until Finish shows the message; null when there is no room.
  std::byte* Begin(std::span<const std::byte> header, size_t payload_bytes);
  void Finish();
  // Of a payload that lies in memory of both sides, `place` bytes from its beginning. False when
  // there is no room.
  bool TrySendPlaced(std::span<const std::byte> header, uint64_t place, size_t payload_bytes);

  // There was no room for the last message, and now there is. Said once: try again then.
  bool HasRoomAgain();
  // When the reader's position has come so far it is worth waking up; kNever when nothing waits for
  // room.
  [[nodiscard]] uint64_t WakePosition() const;
  // The reader has given everything back, as far as it can be believed.
  bool AllRead() { return ring_.Free(ring_.size()) == ring_.size(); }
  [[nodiscard]] size_t ring_bytes() const { return ring_.size(); }
  // All that the reader can see, in bytes since the beginning.
  [[nodiscard]] uint64_t position() const { return ring_.position(); }

 private:
  // `start`: what comes before the header.
  std::byte* Begin(std::span<const uint64_t> start, std::span<const std::byte> header,
                   size_t payload_bytes);

  RingWriter ring_;
  uint64_t wanted_ = 0;  // by the last message, if there was no room for it
  uint64_t begun_ = 0;   // bytes of the message that is being written
};

class MessageReader {
 public:
  // `shared`: where placed payloads lie. Borrows it.
  explicit MessageReader(RingReader ring, std::span<const std::byte> shared = {})
      : ring_(ring), shared_(shared) {}

  // Both are valid until the next call. The header is a copy; the payload lies in the ring or
  // in the shared memory, and the other side can change its bytes all the time (never its length): numbers at most, never a
  // length or an index.
  struct Incoming {
    std::span<const std::byte> header;
    std::span<const std::byte> payload;
  };
  // The next message, once all of it is there; gives the one before back. Throws Error(kRun) on
  // what is no message of ours.
  std::optional<Incoming> TryReceive();

  // Whether `TryReceive` has a message.
  bool Ready() { return NextSizes().has_value(); }
  // When the writer's position has come so far there is one, or more to be known about it.
  [[nodiscard]] uint64_t WakePosition() const { return ring_.position() + wanted_; }
  // All that was given back, in bytes since the beginning.
  [[nodiscard]] uint64_t released() const { return released_; }

 private:
  struct Sizes {
    uint64_t start_bytes;  // before the header
    uint64_t header_bytes;
    uint64_t payload_bytes;
    std::optional<uint64_t> place;  // of the payload, if that is not in the ring

    [[nodiscard]] uint64_t BytesInRing() const;
  };
  std::optional<Sizes> NextSizes();
  [[nodiscard]] bool IsImpossible(const Sizes& sizes) const;

  RingReader ring_;
  std::span<const std::byte> shared_;
  std::vector<std::byte> header_;
  uint64_t released_ = 0;
  uint64_t wanted_ = kAlignment;  // bytes that the next message needs, as far as is known
};

}  // namespace tfdist::runtime::shm
