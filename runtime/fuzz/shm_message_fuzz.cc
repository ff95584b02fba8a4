// The other side of a ring writes anything into it, and into its counter. Each look of a reader
// finds nothing yet, a message that lies within what was produced, or an Error; and a
// reader that sleeps until there is more is woken up.
#include <algorithm>
#include <cassert>
#include <cstring>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"
#include "runtime/fuzz/scribbles.h"
#include "runtime/shm/message.h"
#include "runtime/shm/segment.h"

namespace tfdist::runtime::fuzz {
namespace {

using shm::kAlignment;
using shm::kMinRingBytes;
using shm::MessageReader;
using shm::Padded;

constexpr uint64_t kPreambleBytes = 16;  // shm/message.h

class Ring {
 public:
  Ring() : segment_(shm::Segment::Create(kMinRingBytes, fd_)) {}

  // As it was when it was made.
  void Clear();
  void Write(uint64_t position, std::string_view bytes);
  void SetProduced(uint64_t position) { control_.server.produced.bytes = position; }
  [[nodiscard]] uint64_t produced() const { return control_.server.produced.bytes; }
  [[nodiscard]] uint64_t consumed() const { return control_.client.consumed.bytes; }
  // Where placed payloads lie.
  [[nodiscard]] std::span<const std::byte> shared() const { return shared_; }
  // Behind them lies their mirror image.
  [[nodiscard]] const std::byte* At(uint64_t position) const {
    return &bytes_[position % kMinRingBytes];
  }
  MessageReader Reader() {
    return MessageReader({bytes_, control_.server.produced, control_.client.consumed}, shared_);
  }

 private:
  UniqueFd fd_;
  shm::Segment segment_;
  shm::Control& control_ = segment_.memory().control;
  std::span<std::byte> bytes_ = segment_.memory().server_ring;
  std::vector<std::byte> shared_ = std::vector<std::byte>(1000);
  std::vector<std::pair<uint64_t, size_t>> written_;  // position, bytes
};

void Ring::Clear() {
  for (const auto& [position, bytes] : written_) {
    for (size_t i = 0; i < bytes; ++i) bytes_[(position + i) % kMinRingBytes] = {};
  }
  written_.clear();
  SetProduced(0);
  control_.client.consumed.bytes = 0;
}

void Ring::Write(uint64_t position, std::string_view bytes) {
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes_[(position + i) % kMinRingBytes] = static_cast<std::byte>(bytes[i]);
  }
  written_.emplace_back(position, bytes.size());
}

class Reading {
 public:
  explicit Reading(Ring& ring) : ring_(ring), reader_(ring.Reader()) {}
  void Take(const Scribble& scribble);

 private:
  void Look(bool asks_first);
  // Bytes of the message in the ring.
  [[nodiscard]] uint64_t Check(const MessageReader::Incoming& incoming) const;

  Ring& ring_;
  MessageReader reader_;
  uint64_t next_ = 0;      // position of the next message
  uint64_t produced_ = 0;  // the most that the counter has said and the ring can hold
};

void Reading::Take(const Scribble& scribble) {
  ring_.Write(next_ + scribble.place, scribble.bytes);
  if ((scribble.what & kSetsProduced) != 0) ring_.SetProduced(next_ + scribble.produced);
  Look((scribble.what & kAsksWhetherReady) != 0);
}

void Reading::Look(bool asks_first) {
  if (ring_.produced() - next_ <= kMinRingBytes) {
    produced_ = std::max(produced_, ring_.produced());
  }
  const bool ready = asks_first && reader_.Ready();
  const std::optional<MessageReader::Incoming> incoming = reader_.TryReceive();
  assert(incoming || !ready);
  assert(reader_.released() == next_ && ring_.consumed() == next_);
  if (incoming) {
    next_ += Check(*incoming);
    assert(next_ <= produced_ && next_ - reader_.released() <= kMinRingBytes);
  }
  // Further than the ring is long no writer ever comes.
  const uint64_t wanted = reader_.WakePosition() - next_;
  assert(wanted >= kAlignment && wanted <= kMinRingBytes);
}

// The message is what lies at its place; the payload of a placed one lies in the shared memory.
uint64_t Reading::Check(const MessageReader::Incoming& incoming) const {
  const size_t header_bytes = incoming.header.size();
  assert(header_bytes <= kMinRingBytes && incoming.payload.size() <= kMinRingBytes);
  const std::byte* const message = ring_.At(next_);
  const bool placed = std::memcmp(message, "tshP", 4) == 0;
  const size_t before_header = kPreambleBytes + (placed ? sizeof(uint64_t) : 0);
  assert(header_bytes == 0 ||
         std::memcmp(incoming.header.data(), message + before_header, header_bytes) == 0);
  const std::byte* const payload = incoming.payload.data();
  const std::byte* const payload_end = payload + incoming.payload.size();
  const uint64_t before_payload = Padded(before_header + header_bytes);
  if (placed) {
    assert(payload >= ring_.shared().data() && payload_end <= &*ring_.shared().end());
    return before_payload;
  }
  assert(incoming.payload.empty() || payload == message + before_payload);
  return before_payload + Padded(incoming.payload.size());
}

void Run(std::string_view input) {
  // One for all inputs: it takes much longer to make one than to read it.
  static Ring ring;
  ring.Clear();
  Reading reading(ring);
  try {
    for (Scribble scribble; TakeScribble(input, scribble);) reading.Take(scribble);
  } catch (const Error&) {
  }
}

}  // namespace
}  // namespace tfdist::runtime::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tfdist::runtime::fuzz::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
