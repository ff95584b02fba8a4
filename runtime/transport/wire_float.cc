#include "runtime/transport/wire_float.h"

#include <fp16.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

#include <bit>
#include <cstring>
#include <string>

#include "base/error.h"
#include "runtime/common/copy.h"

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
[[gnu::always_inline]] inline void Narrow(std::span<const float> from, void* to, Convert convert) {
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

#if defined(__x86_64__)
// Eight at a time by the processor: the library's arithmetic made a push of float16 three times as
// slow. It rounds to nearest, ties to even, too; denormals of float16 are kept whatever the thread
// does with those of float32 (Intel's manual, VCVTPS2PH and VCVTPH2PS). They return how many they
// did.
[[gnu::target("avx,f16c")]] size_t NarrowWide(std::span<const float> from, void* to) {
  constexpr size_t kLanes = 8;
  auto* next = static_cast<char*>(to);
  size_t done = 0;
  for (; done + kLanes <= from.size(); done += kLanes, next += kLanes * sizeof(uint16_t)) {
    const __m256 values = _mm256_loadu_ps(from.data() + done);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(next),
                     _mm256_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT));
  }
  return done;
}

[[gnu::target("avx,f16c")]] size_t WidenWide(const void* from, std::span<float> into) {
  constexpr size_t kLanes = 8;
  const auto* next = static_cast<const char*>(from);
  size_t done = 0;
  for (; done + kLanes <= into.size(); done += kLanes, next += kLanes * sizeof(uint16_t)) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(next));
    _mm256_storeu_ps(into.data() + done, _mm256_cvtph_ps(halves));
  }
  return done;
}

// The compiler's vector code in twice the width is twice as fast.
[[gnu::target("avx2")]] void ToBfloat16Wide(std::span<const float> from, void* to) {
  Narrow(from, to, Bfloat16Of);
}

bool HasAvx2() { return __builtin_cpu_supports("avx2") != 0; }

bool HasF16c() {  // Clang 14 does not know its name
  static const bool has = [] {
    unsigned eax = 0;
    unsigned ebx = 0;
    unsigned ecx = 0;
    unsigned edx = 0;
    return HasAvx2() && __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
  }();
  return has;
}
#else
size_t NarrowWide(std::span<const float>, void*) { return 0; }
size_t WidenWide(const void*, std::span<float>) { return 0; }
void ToBfloat16Wide(std::span<const float> from, void* to) { Narrow(from, to, Bfloat16Of); }
bool HasAvx2() { return false; }
bool HasF16c() { return false; }
#endif

void ToBfloat16(std::span<const float> from, void* to) {
  if (HasAvx2()) return ToBfloat16Wide(from, to);
  Narrow(from, to, Bfloat16Of);
}

void ToFloat16(std::span<const float> from, void* to) {
  const size_t done = HasF16c() ? NarrowWide(from, to) : 0;
  Narrow(from.subspan(done), static_cast<char*>(to) + done * sizeof(uint16_t),
         [](float value) { return fp16_ieee_from_fp32_value(value); });
}

void FromFloat16(const void* from, std::span<float> into) {
  const size_t done = HasF16c() ? WidenWide(from, into) : 0;
  Widen(static_cast<const char*>(from) + done * sizeof(uint16_t), into.subspan(done),
        [](uint16_t half) { return fp16_ieee_to_fp32_value(half); });
}

}  // namespace

WireFloat ParseWireFloat(std::string_view text) {
  if (text == "float32") return WireFloat::kFloat32;
  if (text == "float16") return WireFloat::kFloat16;
  if (text == "bfloat16") return WireFloat::kBfloat16;
  throw Error(Phase::kUsage, "unknown number format: " + std::string(text),
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
      return ToFloat16(from, to);
    case WireFloat::kBfloat16:
      return ToBfloat16(from, to);
  }
}

void FromWire(const void* from, WireFloat kind, std::span<float> into) {
  switch (kind) {
    case WireFloat::kFloat32:
      return CopyBytes(into.data(), from, into.size_bytes());
    case WireFloat::kFloat16:
      return FromFloat16(from, into);
    case WireFloat::kBfloat16:
      return Widen(from, into, FromBfloat16);
  }
}

}  // namespace tfdist::runtime
