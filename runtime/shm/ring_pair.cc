#include "runtime/shm/ring_pair.h"

#include <utility>

#include "runtime/shm/local_socket.h"

namespace tfdist::runtime::shm {
namespace {

// A peer that rings without end gets no more of our time than one that does not.
constexpr int kBellsAtOnce = 4;

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

}  // namespace

RingPair::RingPair(Segment segment, UniqueFd socket, Role role,
                   std::shared_ptr<const SharedMemory> shared)
    : RingPair(segment.memory(), std::move(socket), role, std::move(shared)) {
  segment_.emplace(std::move(segment));  // the mapping stays where it is
}

RingPair::RingPair(const Memory& memory, UniqueFd socket, Role role,
                   std::shared_ptr<const SharedMemory> shared)
    : shared_(std::move(shared)),
      socket_(std::move(socket)),
      writer_(Writer(memory, role)),
      reader_(Reader(memory, role), shared_ ? shared_->bytes() : std::span<std::byte>()),
      sleeper_(OwnSide(memory, role).sleep),
      waker_(OtherSide(memory, role).sleep) {}

RingPair::~RingPair() {
  if (socket_.valid()) HangUp(socket_);  // else moved away
}

bool RingPair::TrySend(std::span<const std::byte> header, std::span<const std::byte> payload) {
  if (!writer_.TrySend(header, payload)) return false;
  RingIfAwaited();
  return true;
}

std::optional<uint64_t> RingPair::PlaceOf(const void* bytes, size_t count) const {
  if (!shared_) return std::nullopt;
  // Before its beginning it comes out too large.
  const uint64_t place =
      reinterpret_cast<uintptr_t>(bytes) - reinterpret_cast<uintptr_t>(shared_->bytes().data());
  return IsWithin(place, count) ? std::optional(place) : std::nullopt;
}

std::optional<MessageReader::Incoming> RingPair::TryReceive() {
  const auto incoming = reader_.TryReceive();
  if (waker_.Consumed(reader_.released())) RingBell();
  return incoming;
}

bool RingPair::ArmBell() {
  sleeper_.Announce(reader_.WakePosition(), writer_.WakePosition());
  return !Ready();
}

bool RingPair::DisarmBell() {
  sleeper_.Retract();
  for (int i = 0; i < kBellsAtOnce; ++i) {
    const std::optional<Packet> bell = ReceivePacket(socket_);
    if (!bell) return true;
    if (bell->bytes.empty()) return false;
  }
  return true;
}

void RingPair::RingIfAwaited() {
  if (waker_.Produced(writer_.position())) RingBell();
}

void RingPair::RingBell() {
  // Not sent: the peer is gone, or has so many bells to read that it is awake anyway.
  (void)SendPacket(socket_, "!");
}

}  // namespace tfdist::runtime::shm
