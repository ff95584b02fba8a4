#include "runtime/shm/message.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "base/error.h"
#include "runtime/common/copy.h"

namespace tfdist::runtime::shm {
namespace {

constexpr uint64_t kMark = 0x4d687374;  // "tshM"
constexpr size_t kPreambleBytes = 16;

uint64_t BytesBeforePayload(uint64_t header_bytes) { return Padded(kPreambleBytes + header_bytes); }

uint64_t BytesOfMessage(uint64_t header_bytes, uint64_t payload_bytes) {
  return BytesBeforePayload(header_bytes) + Padded(payload_bytes);
}

[[noreturn]] void ThrowTooLarge(Phase phase, uint64_t header_bytes, uint64_t payload_bytes) {
  throw Error(phase, "shared memory: a message of " + std::to_string(header_bytes) + " + " +
                         std::to_string(payload_bytes) + " bytes");
}

}  // namespace

bool MessageWriter::HasRoomFor(size_t header_bytes, size_t payload_bytes) {
  const uint64_t needed = BytesOfMessage(header_bytes, payload_bytes);
  if (needed > ring_.size()) ThrowTooLarge(Phase::kInternal, header_bytes, payload_bytes);
  wanted_ = ring_.Free(needed) >= needed ? 0 : needed;
  return wanted_ == 0;
}

bool MessageWriter::TrySend(std::span<const std::byte> header, std::span<const std::byte> payload) {
  std::byte* const to = Begin(header, payload.size());
  if (to == nullptr) return false;
  CopyBytes(to, payload.data(), payload.size());
  Finish();
  return true;
}

std::byte* MessageWriter::Begin(std::span<const std::byte> header, size_t payload_bytes) {
  if (!HasRoomFor(header.size(), payload_bytes)) return nullptr;
  std::byte* const to = ring_.Space().data();
  const uint64_t preamble[] = {kMark | uint64_t{header.size()} << 32, payload_bytes};
  static_assert(sizeof preamble == kPreambleBytes);
  std::memcpy(to, preamble, sizeof preamble);
  if (!header.empty()) std::memcpy(to + kPreambleBytes, header.data(), header.size());
  begun_ = BytesOfMessage(header.size(), payload_bytes);
  return to + BytesBeforePayload(header.size());
}

void MessageWriter::Finish() { ring_.Publish(std::exchange(begun_, 0)); }

bool MessageWriter::HasRoomAgain() {
  if (wanted_ == 0 || ring_.Free(wanted_) < wanted_) return false;
  wanted_ = 0;
  return true;
}

uint64_t MessageWriter::WakePosition() const {
  if (wanted_ == 0) return kNever;
  // A quarter of the ring at least: not once for every message that the reader gives back.
  const uint64_t needed = ring_.position() + std::max(wanted_, ring_.size() / 4);
  return needed > ring_.size() ? needed - ring_.size() : 0;
}

std::optional<MessageReader::Incoming> MessageReader::TryReceive() {
  ring_.Publish();
  released_ = ring_.position();
  const std::optional<Sizes> sizes = NextSizes();
  if (!sizes) return std::nullopt;
  const std::span<const std::byte> message = ring_.Data();
  const auto header = message.subspan(kPreambleBytes, sizes->header_bytes);
  header_.assign(header.begin(), header.end());
  ring_.Advance(BytesOfMessage(sizes->header_bytes, sizes->payload_bytes));
  wanted_ = kAlignment;
  return Incoming{header_,
                  message.subspan(BytesBeforePayload(sizes->header_bytes), sizes->payload_bytes)};
}

// Of the next message, when all of it is there.
std::optional<MessageReader::Sizes> MessageReader::NextSizes() {
  if (ring_.Available(wanted_) < wanted_) return std::nullopt;
  const uint64_t first = ring_.Word(0);
  const Sizes sizes = {first >> 32, ring_.Word(8)};
  if ((first & UINT32_MAX) != kMark) {
    throw Error(Phase::kRun, "shared memory: what is there is not a message");
  }
  // Each by itself first: the sum of two lies may come out small.
  if (sizes.header_bytes > ring_.size() || sizes.payload_bytes > ring_.size() ||
      BytesOfMessage(sizes.header_bytes, sizes.payload_bytes) > ring_.size()) {
    ThrowTooLarge(Phase::kRun, sizes.header_bytes, sizes.payload_bytes);
  }
  wanted_ = BytesOfMessage(sizes.header_bytes, sizes.payload_bytes);
  if (ring_.Available(wanted_) < wanted_) return std::nullopt;
  return sizes;
}

}  // namespace tfdist::runtime::shm
