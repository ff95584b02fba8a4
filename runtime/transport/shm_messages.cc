#include "runtime/transport/shm_messages.h"

#include <span>
#include <string>

#include "base/error.h"
#include "runtime/common/copy.h"
#include "runtime/shm/offer.h"

namespace tfdist::runtime {
namespace {

std::span<const std::byte> BytesOf(const zmq::message_t& frame) {
  return {frame.data<std::byte>(), frame.size()};
}

static_assert(shm::kDefaultRingBytes >= kLeastRingBytes);

// A message that refers to the bytes: without a function that frees them ZeroMQ leaves them alone.
zmq::message_t ViewOf(std::span<const std::byte> bytes) {
  if (bytes.empty()) return {};
  return {const_cast<std::byte*>(bytes.data()), bytes.size(), nullptr};
}

// Of a trainer whose values and gradients fit into no core's cache, large values go past that of
// this core. Small ones do not pay.
constexpr size_t kLargeMemory = size_t{16} << 20;
constexpr size_t kLargeValues = size_t{64} << 10;

void Bring(std::span<const std::byte> values, bool to_large_memory, void* to) {
  const auto copy =
      to_large_memory && values.size() >= kLargeValues ? CopyBytesPastCaches : CopyBytes;
  copy(to, values.data(), values.size());
}

bool TrySend(shm::RingPair& connection, const Message& message) {
  const auto header = BytesOf(message.header);
  const auto payload = BytesOf(message.payload);
  const Unwritten& unwritten = message.unwritten;
  const size_t bytes = unwritten ? unwritten.bytes : payload.size();
  if (message.place && connection.IsWithin(*message.place, bytes)) {
    return connection.TrySendPlaced(header, *message.place, bytes, [&](void* to) {
      unwritten ? unwritten.write(to) : Bring(payload, connection.IsWithin(0, kLargeMemory), to);
    });
  }
  if (unwritten) return connection.TrySend(header, bytes, unwritten.write);
  if (const auto place = connection.PlaceOf(payload.data(), bytes)) {
    return connection.TrySendPlaced(header, *place, bytes, [](void*) {});
  }
  return connection.TrySend(header, payload);
}

}  // namespace

bool SendLocally(shm::RingPair& connection, Message& message) {
  const bool sent = TrySend(connection, message);
  if (sent) message = {};  // lets go of what it refers to
  return sent;
}

bool ReceiveLocally(shm::RingPair& connection, Message& into) {
  const auto incoming = connection.TryReceive();
  if (!incoming) return false;
  if (incoming->header.size() > kMaxHeaderBytes || incoming->payload.size() > kMaxBlockBytes) {
    throw Error(Phase::kRun, "shared memory: a message of " +
                                 std::to_string(incoming->header.size()) + " + " +
                                 std::to_string(incoming->payload.size()) + " bytes");
  }
  into.header = ViewOf(incoming->header);
  into.payload = ViewOf(incoming->payload);
  return true;
}

}  // namespace tfdist::runtime
