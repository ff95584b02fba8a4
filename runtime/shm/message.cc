#include "runtime/shm/message.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "base/error.h"
#include "runtime/common/copy.h"

namespace tfdist::runtime::shm {
namespace {

constexpr uint64_t kMark = 0x4d687374;        // "tshM"
constexpr uint64_t kPlacedMark = 0x50687374;  // "tshP"
constexpr size_t kPreambleBytes = 16;
constexpr size_t kPlaceBytes = 8;

uint64_t BytesOfMessage(uint64_t bytes_before_payload, uint64_t payload_bytes) {
  return Padded(bytes_before_payload) + Padded(payload_bytes);
}

[[noreturn]] void ThrowTooLarge(Phase phase, uint64_t header_bytes, uint64_t payload_bytes) {
  throw Error(phase, "shared memory: a message of " + std::to_string(header_bytes) + " + " +
                         std::to_string(payload_bytes) + " bytes");
}

}  // namespace

bool MessageWriter::HasRoomFor(size_t header_bytes, size_t payload_bytes) {
  // A placed message has a little more before its header.
  const uint64_t needed =
      BytesOfMessage(kPreambleBytes + kPlaceBytes + header_bytes, payload_bytes);
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

bool MessageWriter::TrySendPlaced(std::span<const std::byte> header, uint64_t place,
                                  size_t payload_bytes) {
  const uint64_t start[] = {kPlacedMark | uint64_t{header.size()} << 32, payload_bytes, place};
  static_assert(sizeof start == kPreambleBytes + kPlaceBytes);
  if (Begin(start, header, 0) == nullptr) return false;
  Finish();
  return true;
}

std::byte* MessageWriter::Begin(std::span<const std::byte> header, size_t payload_bytes) {
  const uint64_t start[] = {kMark | uint64_t{header.size()} << 32, payload_bytes};
  static_assert(sizeof start == kPreambleBytes);
  return Begin(start, header, payload_bytes);
}

std::byte* MessageWriter::Begin(std::span<const uint64_t> start, std::span<const std::byte> header,
                                size_t payload_bytes) {
  if (!HasRoomFor(header.size(), payload_bytes)) return nullptr;
  std::byte* const to = ring_.Space().data();
  std::memcpy(to, start.data(), start.size_bytes());
  if (!header.empty()) std::memcpy(to + start.size_bytes(), header.data(), header.size());
  const size_t before_payload = start.size_bytes() + header.size();
  begun_ = BytesOfMessage(before_payload, payload_bytes);
  return to + Padded(before_payload);
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
  const auto header = message.subspan(sizes->start_bytes, sizes->header_bytes);
  header_.assign(header.begin(), header.end());
  ring_.Advance(sizes->BytesInRing());
  wanted_ = kAlignment;
  const uint64_t behind_header = Padded(sizes->start_bytes + sizes->header_bytes);
  return Incoming{header_, sizes->place ? shared_.subspan(*sizes->place, sizes->payload_bytes)
                                        : message.subspan(behind_header, sizes->payload_bytes)};
}

uint64_t MessageReader::Sizes::BytesInRing() const {
  return BytesOfMessage(start_bytes + header_bytes, place ? 0 : payload_bytes);
}

// Of the next message, when all of it is there.
std::optional<MessageReader::Sizes> MessageReader::NextSizes() {
  if (ring_.Available(wanted_) < wanted_) return std::nullopt;
  const uint64_t first = ring_.Word(0);
  Sizes sizes = {kPreambleBytes, first >> 32, ring_.Word(8), std::nullopt};
  if ((first & UINT32_MAX) == kPlacedMark) {
    sizes.start_bytes += kPlaceBytes;
    sizes.place = ring_.Word(kPreambleBytes);
  } else if ((first & UINT32_MAX) != kMark) {
    throw Error(Phase::kRun, "shared memory: what is there is not a message");
  }
  if (IsImpossible(sizes)) ThrowTooLarge(Phase::kRun, sizes.header_bytes, sizes.payload_bytes);
  wanted_ = sizes.BytesInRing();
  if (ring_.Available(wanted_) < wanted_) return std::nullopt;
  return sizes;
}

// Each number by itself first: the sum of two lies may come out small.
bool MessageReader::IsImpossible(const Sizes& sizes) const {
  const uint64_t room = sizes.place ? shared_.size() : ring_.size();
  return sizes.header_bytes > ring_.size() || sizes.payload_bytes > room ||
         (sizes.place && *sizes.place > room - sizes.payload_bytes) ||
         sizes.BytesInRing() > ring_.size();
}

}  // namespace tfdist::runtime::shm
