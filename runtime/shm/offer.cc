#include "runtime/shm/offer.h"

#include <sodium.h>
#include <sys/epoll.h>

#include <cassert>
#include <cerrno>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "runtime/common/bytes.h"
#include "runtime/shm/local_socket.h"
#include "runtime/shm/segment.h"

namespace tfdist::runtime::shm {
namespace {

constexpr uint16_t kVersion = 3;  // of the offer, the segment and the messages in it
constexpr size_t kRandomBytes = 16;
constexpr size_t kTextBytes = 64;
constexpr size_t kMaxCallers = 8;

struct OfferText {
  std::string name;  // of the unix socket
  std::string client_token;
  std::string server_token;
  uint64_t ring_bytes = 0;
};

std::string Encode(const OfferText& offer) {
  ByteWriter writer;
  writer.Put(kVersion);
  writer.PutText(offer.name);
  writer.PutText(offer.client_token);
  writer.PutText(offer.server_token);
  writer.Put(offer.ring_bytes);
  return writer.bytes();
}

// nullopt: of another version.
std::optional<OfferText> Decode(std::string_view bytes) {
  ByteReader reader(bytes);
  if (reader.Get<uint16_t>() != kVersion) return std::nullopt;
  OfferText offer;
  offer.name = reader.GetText(kTextBytes);
  offer.client_token = reader.GetText(kTextBytes);
  offer.server_token = reader.GetText(kTextBytes);
  offer.ring_bytes = reader.Get<uint64_t>();
  reader.ExpectEnd();
  if (!IsRingSize(offer.ring_bytes) || offer.server_token.size() != 2 * kRandomBytes ||
      offer.client_token.size() != 2 * kRandomBytes) {
    throw Error(Phase::kRun, "shared memory: a malformed offer");
  }
  return offer;
}

bool IsToken(std::string_view shown, std::string_view token) {
  return shown.size() == token.size() &&
         sodium_memcmp(shown.data(), token.data(), token.size()) == 0;
}

void Watch(const UniqueFd& poll, const UniqueFd& socket) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLRDHUP;
  if (epoll_ctl(poll.get(), EPOLL_CTL_ADD, socket.get(), &event) != 0) {
    throw Error(Phase::kConnect, WithErrno("shared memory: epoll_ctl", errno));
  }
}

}  // namespace

Offer::Offer(size_t ring_bytes)
    : ring_bytes_(ring_bytes),
      client_token_(RandomHex(kRandomBytes)),
      server_token_(RandomHex(kRandomBytes)),
      poll_(epoll_create1(EPOLL_CLOEXEC)) {
  assert(IsRingSize(ring_bytes));
  const std::string name = "tfdist-shm-" + RandomHex(kRandomBytes);
  bytes_ = Encode({name, client_token_, server_token_, ring_bytes});
  listener_ = ListenLocally(name);
  Watch(poll_, listener_);
}

std::optional<RingPair> Offer::TryAccept() {
  AdmitCallers();
  for (auto caller = callers_.begin(); caller != callers_.end();) {
    std::optional<Packet> packet = ReceivePacket(*caller);
    if (!packet) {
      ++caller;
      continue;
    }
    UniqueFd socket = std::move(*caller);
    caller = callers_.erase(caller);
    if (!IsToken(packet->bytes, client_token_)) continue;
    return Serve(std::move(socket), std::move(packet->passed));
  }
  return std::nullopt;
}

void Offer::AdmitCallers() {
  if (!listener_.valid()) return;
  for (size_t i = 0; i < kMaxCallers; ++i) {
    UniqueFd caller = AcceptLocally(listener_);
    if (!caller.valid()) return;
    if (!IsSameAccount(caller)) continue;
    if (callers_.size() == kMaxCallers) callers_.erase(callers_.begin());
    Watch(poll_, caller);
    callers_.push_back(std::move(caller));
  }
}

std::optional<RingPair> Offer::Serve(UniqueFd caller, UniqueFd passed) {
  HangUp(listener_);
  callers_.clear();
  (void)epoll_ctl(poll_.get(), EPOLL_CTL_DEL, caller.get(), nullptr);
  std::shared_ptr<const SharedMemory> shared;
  if (passed.valid()) {
    shared = std::make_shared<SharedMemory>(SharedMemory::Open(std::move(passed)));
  }
  UniqueFd memory;
  Segment segment = Segment::Create(ring_bytes_, memory);
  if (!SendPacketWithFd(caller, server_token_, memory)) return std::nullopt;
  return RingPair(std::move(segment), std::move(caller), Role::kServer, std::move(shared));
}

Call::Call(std::string_view offer_bytes, std::shared_ptr<const SharedMemory> shared) {
  const std::optional<OfferText> offer = Decode(offer_bytes);
  if (!offer) {
    reason_ = "the server's offer is of another version";
    return;
  }
  server_token_ = offer->server_token;
  ring_bytes_ = offer->ring_bytes;
  if (shared && shared->fd().valid()) shared_ = std::move(shared);
  UniqueFd socket = ConnectLocally(offer->name);
  if (!socket.valid()) {
    reason_ = WithErrno("the server's socket cannot be reached", errno);
  } else if (!IsSameAccount(socket)) {
    reason_ = "the server runs under another account";
  } else if (!(shared_ ? SendPacketWithFd(socket, offer->client_token, shared_->fd())
                       : SendPacket(socket, offer->client_token))) {
    reason_ = "the server has hung up";
  } else {
    socket_ = std::move(socket);
  }
}

std::optional<Call::Result> Call::TryFinish() {
  if (!socket_.valid()) return Result{std::nullopt, reason_};
  const std::optional<Packet> answer = ReceivePacket(socket_);
  if (!answer) return std::nullopt;
  UniqueFd socket = std::move(socket_);
  if (answer->bytes.empty()) return Result{std::nullopt, "the server has hung up"};
  if (!IsToken(answer->bytes, server_token_)) {
    return Result{std::nullopt, "the server's token is wrong"};
  }
  try {
    return Result{RingPair(Segment::Open(answer->passed, ring_bytes_), std::move(socket),
                           Role::kClient, std::move(shared_)),
                  ""};
  } catch (const Error& error) {
    // No memory to map, or not what was announced: TCP is always there.
    return Result{std::nullopt, error.cause()};
  }
}

}  // namespace tfdist::runtime::shm
