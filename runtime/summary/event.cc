#include "runtime/summary/event.h"

#include <bit>
#include <string_view>

namespace tfdist::runtime {
namespace {

// Wire types of protobuf: protobuf.dev/programming-guides/encoding.
enum class Wire : uint64_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

// Numbers of the fields.
constexpr uint64_t kEventWallTime = 1;
constexpr uint64_t kEventStep = 2;
constexpr uint64_t kEventFileVersion = 3;
constexpr uint64_t kEventSummary = 5;
constexpr uint64_t kSummaryValue = 1;
constexpr uint64_t kValueTag = 1;
constexpr uint64_t kValueSimpleValue = 2;

void AppendVarint(uint64_t number, std::string& to) {
  for (; number >= 0x80; number >>= 7) to += static_cast<char>(number | 0x80);
  to += static_cast<char>(number);
}

void AppendKey(uint64_t field, Wire wire, std::string& to) {
  AppendVarint(field << 3 | static_cast<uint64_t>(wire), to);
}

template <typename Bits>
void AppendBits(Bits bits, std::string& to) {
  for (size_t i = 0; i < sizeof(Bits); ++i) to += static_cast<char>(bits >> (8 * i));
}

void AppendBytes(uint64_t field, std::string_view bytes, std::string& to) {
  AppendKey(field, Wire::kBytes, to);
  AppendVarint(bytes.size(), to);
  to += bytes;
}

std::string EventAt(double wall_time) {
  std::string event;
  AppendKey(kEventWallTime, Wire::kFixed64, event);
  AppendBits(std::bit_cast<uint64_t>(wall_time), event);
  return event;
}

std::string ValueOf(const Scalar& scalar) {
  std::string value;
  AppendBytes(kValueTag, scalar.tag, value);
  AppendKey(kValueSimpleValue, Wire::kFixed32, value);
  AppendBits(std::bit_cast<uint32_t>(scalar.value), value);
  return value;
}

}  // namespace

std::string VersionEvent(double wall_time) {
  std::string event = EventAt(wall_time);
  AppendBytes(kEventFileVersion, "brain.Event:2", event);
  return event;
}

std::string ScalarsEvent(double wall_time, int64_t step, const std::vector<Scalar>& scalars) {
  std::string summary;
  for (const Scalar& scalar : scalars) AppendBytes(kSummaryValue, ValueOf(scalar), summary);
  std::string event = EventAt(wall_time);
  AppendKey(kEventStep, Wire::kVarint, event);
  AppendVarint(static_cast<uint64_t>(step), event);
  AppendBytes(kEventSummary, summary, event);
  return event;
}

}  // namespace tfdist::runtime
