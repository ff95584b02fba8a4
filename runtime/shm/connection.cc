#include "runtime/shm/connection.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "runtime/shm/copy.h"
#include "runtime/shm/local_socket.h"

namespace tfdist::runtime::shm {
namespace {

// Copies go piece by piece, so that both sides work at the same time.
constexpr size_t kPieceBytes = size_t{64} * 1024;
// A death wakes nobody from a futex.
constexpr std::chrono::milliseconds kLookAtPeer{100};

bool Wants(Interest interest, Interest what) {
  return (static_cast<unsigned>(interest) & static_cast<unsigned>(what)) != 0;
}

Side& OwnSide(const Memory& memory, Role role) {
  return role == Role::kServer ? memory.control.server : memory.control.client;
}
Side& OtherSide(const Memory& memory, Role role) {
  return role == Role::kServer ? memory.control.client : memory.control.server;
}

RingWriter Writer(const Memory& memory, Role role) {
  return {role == Role::kServer ? memory.server_ring : memory.client_ring,
          OwnSide(memory, role).produced, OtherSide(memory, role).consumed};
}
RingReader Reader(const Memory& memory, Role role) {
  return {role == Role::kServer ? memory.client_ring : memory.server_ring,
          OtherSide(memory, role).produced, OwnSide(memory, role).consumed};
}

uint64_t SizeBytes(std::span<const std::span<const std::byte>> pieces) {
  uint64_t bytes = 0;
  for (const std::span<const std::byte> piece : pieces) bytes += piece.size();
  return bytes;
}

}  // namespace

Connection::Connection(Segment segment, UniqueFd socket, Role role, const Limits& limits)
    : Connection(segment.memory(), std::move(socket), role, limits) {
  segment_.emplace(std::move(segment));  // the mapping stays where it is
}

Connection::Connection(const Memory& memory, UniqueFd socket, Role role, const Limits& limits)
    : socket_(std::move(socket)),
      writer_(Writer(memory, role)),
      reader_(Reader(memory, role), limits),
      sleeper_(OwnSide(memory, role).sleep),
      waker_(OtherSide(memory, role).sleep) {}

Connection::~Connection() {
  if (!socket_.valid()) return;  // moved away
  // The socket first: who is woken looks at it. A closed socket is a bell.
  HangUp(socket_);
  (void)waker_.Wake();
}

bool Connection::TryBegin(std::span<const std::byte> header, uint64_t payload_bytes) {
  if (!writer_.TryBegin(header, payload_bytes)) return false;
  if (payload_bytes == 0 && waker_.Produced(writer_.position())) RingBell();
  return true;
}

void Connection::Commit(size_t bytes) {
  writer_.Commit(bytes);
  if (waker_.Produced(writer_.position())) RingBell();
}

WaitResult Connection::Send(std::span<const std::byte> header,
                            std::span<const std::span<const std::byte>> payload,
                            TimePoint deadline) {
  while (!TryBegin(header, SizeBytes(payload))) {
    const WaitResult result = Wait(Interest::kWritable, deadline);
    if (result != WaitResult::kReady) return result;
  }
  for (std::span<const std::byte> piece : payload) {
    while (!piece.empty()) {
      const std::span<std::byte> space = Space();
      const size_t count = std::min({space.size(), piece.size(), kPieceBytes});
      if (count == 0) {
        const WaitResult result = Wait(Interest::kWritable, deadline);
        if (result != WaitResult::kReady) return result;
        continue;
      }
      CopyBytes(space.data(), piece.data(), count);
      Commit(count);
      piece = piece.subspan(count);
    }
  }
  return WaitResult::kReady;
}

std::optional<MessageReader::Incoming> Connection::TryReceive() {
  const auto incoming = reader_.TryReceive();
  if (incoming && incoming->payload_bytes == 0 && waker_.Consumed(reader_.position())) RingBell();
  return incoming;
}

void Connection::Release(size_t bytes) {
  reader_.Release(bytes);
  if (waker_.Consumed(reader_.position())) RingBell();
}

WaitResult Connection::Read(std::span<std::byte> into, TimePoint deadline) {
  assert(into.size() <= to_receive());
  while (!into.empty()) {
    const std::span<const std::byte> piece = Payload();
    const size_t count = std::min({piece.size(), into.size(), kPieceBytes});
    if (count == 0) {
      const WaitResult result = Wait(Interest::kReadable, deadline);
      if (result != WaitResult::kReady) return result;
      continue;
    }
    CopyBytes(into.data(), piece.data(), count);
    Release(count);
    into = into.subspan(count);
  }
  return WaitResult::kReady;
}

WaitResult Connection::Skip(TimePoint deadline) {
  while (to_receive() > 0) {
    Release(Payload().size());
    if (to_receive() == 0) break;
    const WaitResult result = Wait(Interest::kReadable, deadline);
    if (result != WaitResult::kReady) return result;
  }
  return WaitResult::kReady;
}

WaitResult Connection::Wait(Interest interest, TimePoint deadline) {
  if (Ready(interest)) return WaitResult::kReady;
  for (Spin spin(spin_habit_, deadline); spin.Again();) {
    if (!Ready(interest)) continue;
    spin_habit_.Paid();
    return WaitResult::kReady;
  }
  spin_habit_.Failed();
  while (true) {
    // Before the last look at the ring: what the peer wrote before it died still counts.
    const bool gone = PeerGone();
    Announce(kInFutex, interest);
    const bool ready = Ready(interest);
    const TimePoint now = std::chrono::steady_clock::now();
    if (!ready && !gone && now < deadline) {
      Sleep(std::min<std::chrono::nanoseconds>(deadline - now, kLookAtPeer), interest);
    }
    sleeper_.Retract();
    if (ready || Ready(interest)) return WaitResult::kReady;
    if (gone) return WaitResult::kPeerGone;
    if (now >= deadline) return WaitResult::kTimedOut;
  }
}

bool Connection::ArmBell(Interest interest) {
  Announce(kAtBell, interest);
  return !Ready(interest);
}

void Connection::DisarmBell() {
  sleeper_.Retract();
  // A few at a time: a peer that rings without end gets no more of our time than one that does not.
  for (int i = 0; i < 4; ++i) {
    const std::optional<Packet> bell = ReceivePacket(socket_);
    if (!bell || bell->bytes.empty()) return;
  }
}

bool Connection::Ready(Interest interest) {
  return (Wants(interest, Interest::kReadable) && reader_.Ready()) ||
         (Wants(interest, Interest::kWritable) && writer_.Ready());
}

bool Connection::PeerGone() const { return IsHungUp(socket_); }

Statistics Connection::statistics() const {
  Statistics statistics = statistics_;
  statistics.sent_bytes = writer_.position();
  statistics.received_bytes = reader_.position();
  return statistics;
}

void Connection::Sleep(std::chrono::nanoseconds limit, Interest interest) {
  const TimePoint begin = std::chrono::steady_clock::now();
  const bool woken = sleeper_.Sleep(limit);
  statistics_.slept += std::chrono::steady_clock::now() - begin;
  ++statistics_.sleeps;
  if (!woken && Ready(interest)) ++statistics_.late;
}

void Connection::Announce(uint32_t state, Interest interest) {
  sleeper_.Announce(state, Wants(interest, Interest::kReadable) ? reader_.WakePosition() : kNever,
                    Wants(interest, Interest::kWritable) ? writer_.WakePosition() : kNever);
}

void Connection::RingBell() {
  // Not sent: the peer is gone, or has so many bells to read that it is awake anyway.
  (void)SendPacket(socket_, "!");
}

}  // namespace tfdist::runtime::shm
