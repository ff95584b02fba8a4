#include "runtime/shm/message.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <string>

#include "base/error.h"

namespace tfdist::runtime::shm {
namespace {

constexpr uint64_t kMark = 0x4d687374;  // "tshM"
constexpr size_t kPreambleBytes = 16;

}  // namespace

bool MessageWriter::TryBegin(std::span<const std::byte> header, uint64_t payload_bytes) {
  assert(remaining_ == 0 && header.size() <= kMaxHeaderBytes);
  const uint64_t needed = Padded(kPreambleBytes + header.size());
  if (ring_.Free(needed) < needed) return false;
  const std::array<uint64_t, 2> preamble = {kMark | uint64_t{header.size()} << 32, payload_bytes};
  ring_.Put(std::as_bytes(std::span(preamble)));
  ring_.Put(header);
  ring_.Advance(needed - kPreambleBytes - header.size());
  remaining_ = payload_bytes;
  // With a payload the first commit shows both: one look less for the reader.
  if (remaining_ == 0) ring_.Publish();
  return true;
}

std::span<std::byte> MessageWriter::Space() {
  if (remaining_ == 0) return {};
  ring_.Free(std::min<uint64_t>(remaining_, ring_.size() / 4));
  const std::span<std::byte> space = ring_.Space();
  return space.first(std::min<uint64_t>(space.size(), remaining_));
}

void MessageWriter::Commit(size_t bytes) {
  assert(bytes <= remaining_);
  ring_.Advance(bytes);
  remaining_ -= bytes;
  if (remaining_ == 0) ring_.Advance(Padded(ring_.position()) - ring_.position());
  ring_.Publish();
}

bool MessageWriter::Ready() {
  if (remaining_ > 0) return !Space().empty();
  constexpr uint64_t kEnough = Padded(kPreambleBytes + kMaxHeaderBytes);
  return ring_.Free(kEnough) >= kEnough;
}

uint64_t MessageWriter::WakePosition() const {
  // Within a message a quarter of the ring: not once for every piece that the reader gives back.
  const uint64_t worth = remaining_ > 0 ? std::min<uint64_t>(Padded(remaining_), ring_.size() / 4)
                                        : Padded(kPreambleBytes + kMaxHeaderBytes);
  const uint64_t needed = ring_.position() + worth;
  return needed > ring_.size() ? needed - ring_.size() : 0;
}

MessageReader::MessageReader(RingReader ring, Limits limits) : ring_(ring), limits_(limits) {
  limits_.max_header_bytes = std::min(limits_.max_header_bytes, kMaxHeaderBytes);
}

std::optional<MessageReader::Incoming> MessageReader::TryReceive() {
  const std::optional<Sizes> sizes = NextSizes();
  if (!sizes) return std::nullopt;
  header_.resize(sizes->header_bytes);
  ring_.CopyOut(kPreambleBytes, header_);
  ring_.Advance(Padded(kPreambleBytes + sizes->header_bytes));
  remaining_ = sizes->payload_bytes;
  wanted_ = kAlignment;
  // With a payload, its first release gives the header back too.
  if (remaining_ == 0) ring_.Publish();
  return Incoming{header_, remaining_};
}

// Of the next message, when all of its header is there.
std::optional<MessageReader::Sizes> MessageReader::NextSizes() {
  assert(remaining_ == 0);
  if (ring_.Available(wanted_) < wanted_) return std::nullopt;
  const uint64_t first = ring_.Word(0);
  const Sizes sizes = {first >> 32, ring_.Word(8)};
  if ((first & UINT32_MAX) != kMark) {
    throw Error(Phase::kRun, "shared memory: what is there is not a message");
  }
  if (sizes.header_bytes > limits_.max_header_bytes ||
      sizes.payload_bytes > limits_.max_payload_bytes) {
    throw Error(Phase::kRun, "shared memory: a message of " + std::to_string(sizes.header_bytes) +
                                 " + " + std::to_string(sizes.payload_bytes) + " bytes");
  }
  wanted_ = Padded(kPreambleBytes + sizes.header_bytes);
  if (ring_.Available(wanted_) < wanted_) return std::nullopt;
  return sizes;
}

std::span<const std::byte> MessageReader::Payload() {
  if (remaining_ == 0) return {};
  ring_.Available(1);
  const std::span<const std::byte> data = ring_.Data();
  return data.first(std::min<uint64_t>(data.size(), remaining_));
}

void MessageReader::Release(size_t bytes) {
  assert(bytes <= remaining_);
  ring_.Advance(bytes);
  remaining_ -= bytes;
  if (remaining_ == 0) ring_.Advance(Padded(ring_.position()) - ring_.position());
  ring_.Publish();
}

bool MessageReader::Ready() {
  return remaining_ > 0 ? !Payload().empty() : NextSizes().has_value();
}

uint64_t MessageReader::WakePosition() const {
  // Within a message an eighth of the ring: where both sides share a core, a switch for every piece
  // takes longer than the piece.
  return ring_.position() +
         (remaining_ > 0 ? std::min<uint64_t>(remaining_, ring_.size() / 8) : wanted_);
}

}  // namespace tfdist::runtime::shm
