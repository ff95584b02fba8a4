#include "runtime/shm/offer.h"

#include <poll.h>
#include <sodium.h>
#include <sys/epoll.h>

#include <cerrno>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "runtime/shm/host_id.h"
#include "runtime/shm/local_socket.h"
#include "runtime/shm/segment.h"
#include "runtime/transport/bytes.h"

namespace tfdist::runtime::shm {
namespace {

constexpr uint16_t kVersion = 1;  // of the offer, the segment and the messages in it
constexpr size_t kRandomBytes = 16;
constexpr size_t kTextBytes = 64;
constexpr size_t kMaxCallers = 8;

struct OfferText {
  HostId host;
  std::string name;  // of the unix socket
  std::string client_token;
  std::string server_token;
  uint64_t ring_bytes = 0;
};

std::string Encode(const OfferText& offer) {
  ByteWriter writer;
  writer.Put(kVersion);
  writer.PutText(offer.host.boot_id);
  writer.Put(offer.host.network_namespace);
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
  offer.host.boot_id = reader.GetText(kTextBytes);
  offer.host.network_namespace = reader.Get<uint64_t>();
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

Packet WaitForPacket(const UniqueFd& socket, TimePoint deadline) {
  while (true) {
    if (std::optional<Packet> packet = ReceivePacket(socket)) return *std::move(packet);
    pollfd item = {socket.get(), POLLIN, 0};
    const TimePoint now = std::chrono::steady_clock::now();
    if (now >= deadline) return {};
    (void)poll(&item, 1, PollTimeout(now, deadline));
  }
}

Acceptance Declined(std::string reason) { return {std::nullopt, std::move(reason)}; }

}  // namespace

Offer::Offer(size_t ring_bytes, const Limits& limits)
    : ring_bytes_(ring_bytes),
      limits_(limits),
      client_token_(RandomHex(kRandomBytes)),
      server_token_(RandomHex(kRandomBytes)),
      poll_(epoll_create1(EPOLL_CLOEXEC)) {
  const std::optional<HostId> host = ThisHost();
  if (!host) throw Error(Phase::kRun, "shared memory: /proc does not tell which host this is");
  if (!IsRingSize(ring_bytes)) throw Error(Phase::kRun, "shared memory: not a size of a ring");
  const std::string name = "tfdist-shm-" + RandomHex(kRandomBytes);
  bytes_ = Encode({*host, name, client_token_, server_token_, ring_bytes});
  listener_ = ListenLocally(name);
  Watch(poll_, listener_);
}

std::optional<Connection> Offer::TryAccept() {
  AdmitCallers();
  for (auto caller = callers_.begin(); caller != callers_.end();) {
    const std::optional<Packet> packet = ReceivePacket(*caller);
    if (!packet) {
      ++caller;
      continue;
    }
    UniqueFd socket = std::move(*caller);
    caller = callers_.erase(caller);
    if (IsToken(packet->bytes, client_token_)) return Serve(std::move(socket));
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

std::optional<Connection> Offer::Serve(UniqueFd caller) {
  HangUp(listener_);
  callers_.clear();
  (void)epoll_ctl(poll_.get(), EPOLL_CTL_DEL, caller.get(), nullptr);
  UniqueFd memory;
  Segment segment = Segment::Create(ring_bytes_, memory);
  if (!SendPacketWithFd(caller, server_token_, memory)) return std::nullopt;
  return Connection(std::move(segment), std::move(caller), Role::kServer, limits_);
}

Acceptance AcceptOffer(std::string_view bytes, TimePoint deadline, const Limits& limits) {
  const std::optional<OfferText> offer = Decode(bytes);
  if (!offer) return Declined("the server's offer is of another version");
  if (ThisHost() != offer->host) return Declined("the server is on another host");
  UniqueFd socket = ConnectLocally(offer->name);
  if (!socket.valid()) return Declined(WithErrno("the server's socket cannot be reached", errno));
  if (!IsSameAccount(socket)) return Declined("the server runs under another account");
  if (!SendPacket(socket, offer->client_token)) return Declined("the server has hung up");
  const Packet answer = WaitForPacket(socket, deadline);
  if (answer.bytes.empty()) return Declined("the server has hung up or did not answer in time");
  if (!IsToken(answer.bytes, offer->server_token)) return Declined("the server's token is wrong");
  try {
    Segment segment = Segment::Open(answer.passed, offer->ring_bytes);
    return {Connection(std::move(segment), std::move(socket), Role::kClient, limits), ""};
  } catch (const Error& error) {
    // No memory to map, or not what was announced: TCP is always there.
    return Declined(error.cause());
  }
}

}  // namespace tfdist::runtime::shm
