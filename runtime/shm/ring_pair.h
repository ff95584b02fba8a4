// A shared-memory connection between two processes of one account on one host: messages both ways,
// each a header and a payload. What is sent is copied into a ring, or written there; what arrives
// is read where it lies, so a gradient is applied without a copy on the receiving side. A client may
// let the server map memory of its own as well: what lies there, or belongs there, goes through no ring.
//
// One thread at a time; movable. Nothing here waits. Nothing from the other side is believed: a
// counter or a length that cannot be makes any call throw Error(kRun), and the connection is to be
// dropped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "base/unique_fd.h"
#include "runtime/common/shared_memory.h"
#include "runtime/shm/message.h"
#include "runtime/shm/segment.h"
#include "runtime/shm/wake.h"

namespace tfdist::runtime::shm {

enum class Role { kServer, kClient };

class RingPair {
 public:
  // `socket` is connected to the other side's process: it tells when that dies, and carries the
  // bell. `shared`: the client's memory, of which each side has a mapping; may be nullptr. Made by
  // Offer and Call.
  RingPair(Segment segment, UniqueFd socket, Role role, std::shared_ptr<const SharedMemory> shared);
  // Borrows the memory. Both ends over one mapping, as a thread sanitizer needs them: for tests.
  RingPair(const Memory& memory, UniqueFd socket, Role role,
           std::shared_ptr<const SharedMemory> shared = nullptr);
  RingPair(RingPair&&) noexcept = default;
  RingPair& operator=(RingPair&&) = delete;
  // Hangs up: the other side is woken, and DisarmBell tells it; what was sent can still be read.
  ~RingPair();

  [[nodiscard]] size_t ring_bytes() const { return writer_.ring_bytes(); }
  // False when there is no room now. Throws Error(kInternal) for a message that is larger than the
  // ring.
  bool TrySend(std::span<const std::byte> header, std::span<const std::byte> payload);
  // The same for a payload that `write(void* to)` writes, straight into the ring.
  template <typename Write>
  bool TrySend(std::span<const std::byte> header, size_t payload_bytes, const Write& write) {
    std::byte* const to = writer_.Begin(header, payload_bytes);
    if (to == nullptr) return false;
    write(to);
    writer_.Finish();
    RingIfAwaited();
    return true;
  }
  // A payload that lies in the client's memory, `place` bytes from its beginning, or that
  // `write(void* to)` brings there: it takes no room in the ring. All of it must be Within. The
  // other side reads it there, until it has answered.
  template <typename Write>
  bool TrySendPlaced(std::span<const std::byte> header, uint64_t place, size_t payload_bytes,
                     const Write& write) {
    if (!writer_.HasRoomFor(header.size(), 0)) return false;
    write(shared_->bytes().data() + place);
    (void)writer_.TrySendPlaced(header, place, payload_bytes);
    RingIfAwaited();
    return true;
  }
  [[nodiscard]] bool IsWithin(uint64_t place, size_t bytes) const {
    const size_t size = shared_ ? shared_->bytes().size() : 0;
    return bytes > 0 && bytes <= size && place <= size - bytes;
  }
  // Of bytes in the client's memory.
  [[nodiscard]] std::optional<uint64_t> PlaceOf(const void* bytes, size_t count) const;
  bool HasRoomFor(size_t header_bytes, size_t payload_bytes) {
    return writer_.HasRoomFor(header_bytes, payload_bytes);
  }
  // Valid until the next call, which gives its room back: call it until there is nothing before
  // sleeping.
  std::optional<MessageReader::Incoming> TryReceive();

  // TryReceive has a message, or there is room again for one that there was none for; of the room
  // it is said once, here or by ArmBell: send again then. Without a system call.
  bool Ready() { return HasMessage() || writer_.HasRoomAgain(); }
  bool HasMessage() { return reader_.Ready(); }
  // The other side has read everything, or says so.
  bool AllRead() { return writer_.AllRead(); }

  // Spin over what is waited for, then
  //   if (ArmBell()) poll(bell_fd() for input, and whatever else);
  //   DisarmBell();
  // False: there is something already, so do not sleep. The descriptor also becomes readable when
  // the peer is gone.
  [[nodiscard]] bool ArmBell();
  // False when the peer is gone: dead or hung up. What it had sent before may still be there.
  bool DisarmBell();
  [[nodiscard]] int bell_fd() const { return socket_.get(); }

 private:
  void RingIfAwaited();
  void RingBell();

  std::optional<Segment> segment_;
  std::shared_ptr<const SharedMemory> shared_;
  UniqueFd socket_;
  MessageWriter writer_;
  MessageReader reader_;
  Sleeper sleeper_;
  Waker waker_;
};

}  // namespace tfdist::runtime::shm
