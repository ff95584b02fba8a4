#include "runtime/common/copy.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace tfdist::runtime {

void CopyBytes(void* into, const void* from, size_t count) {
  auto* to = static_cast<char*>(into);
  const auto* source = static_cast<const char*>(from);
  size_t block = 2048;
  // Unknown to the compiler, which else puts a `rep movsq` of its own in memcpy's place.
  asm("" : "+r"(block));
  for (; count > block; count -= block, to += block, source += block) {
    std::memcpy(to, source, block);
  }
  if (count > 0) std::memcpy(to, source, count);
}

#if defined(__x86_64__)
void CopyBytesPastCaches(void* into, const void* from, size_t count) {
  constexpr size_t kVector = sizeof(__m128i);
  auto* to = static_cast<char*>(into);
  const auto* source = static_cast<const char*>(from);
  const size_t before = std::min(count, -reinterpret_cast<uintptr_t>(to) % kVector);
  std::memcpy(to, source, before);
  to += before, source += before, count -= before;
  for (; count >= kVector; count -= kVector, to += kVector, source += kVector) {
    const __m128i vector = _mm_loadu_si128(reinterpret_cast<const __m128i*>(source));
    _mm_stream_si128(reinterpret_cast<__m128i*>(to), vector);
  }
  std::memcpy(to, source, count);
  _mm_sfence();  // such stores are ordered by nothing else
}
#else
void CopyBytesPastCaches(void* into, const void* from, size_t count) {
  CopyBytes(into, from, count);
}
#endif

}  // namespace tfdist::runtime
