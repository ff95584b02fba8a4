// A shared-memory connection between two processes of one account on one host: messages both ways,
// each a header and a payload of any length. Memory is bounded by the two rings; a payload larger
// than that passes through in pieces.
//
// Sending, the payload is written straight into the ring; receiving, it is read where it lies and
// given back piece by piece. So a gradient is applied without a copy, and an answer is copied once
// into the ring.
//
// One thread at a time; movable. Everything is non-blocking but `Wait`, `Send`, `Read` and `Skip`,
// which have a deadline. Nothing from the other side is believed: a counter or a length that cannot
// be makes any call throw Error(kRun), and the connection is to be dropped. After kTimedOut or
// kPeerGone in the midst of a message it is to be dropped too, or the message to be continued.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "runtime/shm/message.h"
#include "runtime/shm/segment.h"
#include "runtime/shm/wake.h"

namespace tfdist::runtime::shm {

enum class Role { kServer, kClient };

enum class WaitResult {
  kReady,
  kTimedOut,
  kPeerGone,  // dead or hung up, and all that it sent has been read
};

// What to wait for.
enum class Interest : unsigned {
  kReadable = 1,  // TryReceive has a message; within one, Payload has bytes
  kWritable = 2,  // TryBegin succeeds; within a message, Space has room
  kEither = 3,
};

// Since the beginning.
struct Statistics {
  uint64_t sent_bytes = 0;  // in the rings, with preambles and padding
  uint64_t received_bytes = 0;
  uint64_t sleeps = 0;  // in Wait
  uint64_t late = 0;    // of those: over by the clock, and yet there was something to do
  std::chrono::nanoseconds slept{0};
};

class Connection {
 public:
  // `socket` is connected to the other side's process: it tells when that dies, and carries the
  // bell. Made by Offer and AcceptOffer.
  Connection(Segment segment, UniqueFd socket, Role role, const Limits& limits);
  // Borrows the memory. Both ends over one mapping, as a thread sanitizer needs them: for tests.
  Connection(const Memory& memory, UniqueFd socket, Role role, const Limits& limits);
  Connection(Connection&&) noexcept = default;
  Connection& operator=(Connection&&) = delete;
  // Hangs up: the other side is woken and sees kPeerGone once it has read the rest.
  ~Connection();

  // --- Sending. Begin, then Space and Commit until nothing remains.

  // False when there is no room now. `header` is at most kMaxHeaderBytes long.
  bool TryBegin(std::span<const std::byte> header, uint64_t payload_bytes);
  // Room for the next bytes of the payload; aligned to 64 bytes at a payload's beginning.
  std::span<std::byte> Space() { return writer_.Space(); }
  // The first `bytes` of Space are written and the other side may read them. A large payload flows
  // when that comes every 64 KiB or so. A receiver that sleeps is woken when the rest of the
  // payload or an eighth of the ring is there: finish what you begin.
  void Commit(size_t bytes);
  [[nodiscard]] uint64_t to_send() const { return writer_.remaining(); }

  // A whole message, its payload out of several pieces of memory, one after the other. When both
  // sides send more than a ring at once, both wait for ever: who cannot exclude it uses the calls
  // above.
  WaitResult Send(std::span<const std::byte> header,
                  std::span<const std::span<const std::byte>> payload, TimePoint deadline);

  // --- Receiving. TryReceive, then Payload and Release until nothing remains.

  std::optional<MessageReader::Incoming> TryReceive();
  // What has arrived of the payload, in one piece of the ring; the other side may still change its
  // bytes (never its length). Release what you were shown before you wait for more.
  std::span<const std::byte> Payload() { return reader_.Payload(); }
  void Release(size_t bytes);
  [[nodiscard]] uint64_t to_receive() const { return reader_.remaining(); }

  // Copies the next bytes of the payload; at most `to_receive`.
  WaitResult Read(std::span<std::byte> into, TimePoint deadline);
  // Drops the rest of the payload.
  WaitResult Skip(TimePoint deadline);

  // --- Waiting

  // Spins for 20 us at most, then sleeps. Notices within a quarter of a second that the peer has
  // died.
  WaitResult Wait(Interest interest, TimePoint deadline);

  // For a thread that waits for several things: spin over all of them with `Ready`, then
  //   if (all.ArmBell(...)) poll(bell_fd() for input, and the others);
  //   all.DisarmBell();
  // False: there is something already, so do not sleep. The descriptor also becomes readable when
  // the peer is gone.
  [[nodiscard]] bool ArmBell(Interest interest);
  void DisarmBell();
  [[nodiscard]] int bell_fd() const { return socket_.get(); }

  // Without waiting. What the peer had sent before may still be there: read first.
  bool Ready(Interest interest);
  [[nodiscard]] bool PeerGone() const;

  [[nodiscard]] Statistics statistics() const;

 private:
  void Sleep(std::chrono::nanoseconds limit, Interest interest);
  void Announce(uint32_t state, Interest interest);
  void RingBell();

  std::optional<Segment> segment_;
  UniqueFd socket_;
  MessageWriter writer_;
  MessageReader reader_;
  Sleeper sleeper_;
  Waker waker_;
  SpinHabit spin_habit_;
  Statistics statistics_;
};

}  // namespace tfdist::runtime::shm
