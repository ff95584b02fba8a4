#include "runtime/transport/wire_float.h"

#include <fp16.h>

#include <bit>
#include <cstring>
#include <string>

#include "base/error.h"
#include "runtime/copy.h"

namespace tfdist::runtime {
namespace {

uint16_t Bfloat16Of(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  // Rounding could turn a NaN into an infinity.
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// The bits of the least positive float that is written as infinity.
uint32_t InfiniteFrom(WireFloat kind) {
  switch (kind) {
    case WireFloat::kFloat32:
      return 0x7f800000;
    case WireFloat::kFloat16:
      return 0x477ff000;  // 65,520: half way from the largest to what would be the next
    case WireFloat::kBfloat16:
      return 0x7f7f8000;
  }
  return 0;
}

float FromBfloat16(uint16_t half) { return std::bit_cast<float>(uint32_t{half} << 16); }

template <typename Convert>
void Narrow(std::span<const float> from, void* to, Convert convert) {
  auto* next = static_cast<char*>(to);
  for (const float value : from) {
    const uint16_t half = convert(value);
    std::memcpy(next, &half, sizeof half);
    next += sizeof half;
  }
}

template <typename Convert>
void Widen(const void* from, std::span<float> into, Convert convert) {
  const auto* next = static_cast<const char*>(from);
  for (float& value : into) {
    uint16_t half = 0;
    std::memcpy(&half, next, sizeof half);
    value = convert(half);
    next += sizeof half;
  }
}

}  // namespace

WireFloat ParseWireFloat(std::string_view text) {
  if (text == "float32") return WireFloat::kFloat32;
  if (text == "float16") return WireFloat::kFloat16;
  if (text == "bfloat16") return WireFloat::kBfloat16;
  throw Error(Phase::kUsage, "no such kind of values: " + std::string(text),
              "float32, float16 or bfloat16");
}

// Without a branch in the loop, for vector instructions.
bool Fit(std::span<const float> values, WireFloat kind) {
  const uint32_t infinite_from = InfiniteFrom(kind);
  uint32_t bad = 0;
  for (const float value : values) {
    const uint32_t magnitude = std::bit_cast<uint32_t>(value) & 0x7fffffff;
    bad |= static_cast<uint32_t>(magnitude >= infinite_from);
  }
  return bad == 0;
}

void ToWire(std::span<const float> from, WireFloat kind, void* to) {
  switch (kind) {
    case WireFloat::kFloat32:
      return CopyBytes(to, from.data(), from.size_bytes());
    case WireFloat::kFloat16:
      return Narrow(from, to, [](float value) { return fp16_ieee_from_fp32_value(value); });
    case WireFloat::kBfloat16:
      return Narrow(from, to, Bfloat16Of);
  }
}

void FromWire(const void* from, WireFloat kind, std::span<float> into) {
  switch (kind) {
    case WireFloat::kFloat32:
      return CopyBytes(into.data(), from, into.size_bytes());
    case WireFloat::kFloat16:
      return Widen(from, into, [](uint16_t half) { return fp16_ieee_to_fp32_value(half); });
    case WireFloat::kBfloat16:
      return Widen(from, into, FromBfloat16);
  }
}

}  // namespace tfdist::runtime
