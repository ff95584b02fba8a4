#include "base/sha256_blocks.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

#include <array>
#else
#include <cstdlib>
#endif

namespace tfdist {

#if defined(__x86_64__)
namespace {

// FIPS 180-4 4.2.2.
alignas(16) constexpr std::array<uint32_t, 64> kRoundConstants = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

// Four words a register; sixteen of them are in use at a time.
constexpr size_t kGroups = kRoundConstants.size() / 4;
struct Schedule {
  __m128i groups[4];
};

__attribute__((target("sha,sse4.1"))) __m128i Load(const void* from) {
  return _mm_loadu_si128(static_cast<const __m128i*>(from));
}

// The words that come sixteen after those of group `at`.
__attribute__((target("sha,sse4.1"))) __m128i Next(const Schedule& words, size_t at) {
  const __m128i* groups = words.groups;
  const __m128i last = groups[(at + 3) % 4];
  const __m128i seven_before = _mm_alignr_epi8(last, groups[(at + 2) % 4], 4);
  const __m128i sum =
      _mm_add_epi32(_mm_sha256msg1_epu32(groups[at % 4], groups[(at + 1) % 4]), seven_before);
  return _mm_sha256msg2_epu32(sum, last);
}

}  // namespace

bool HasSha256Instructions() {
  static const bool has = [] {
    unsigned eax = 0;
    unsigned ebx = 0;
    unsigned ecx = 0;
    unsigned edx = 0;
    const bool has_sse41 = __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_SSE4_1) != 0;
    return has_sse41 && __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 &&
           (ebx & bit_SHA) != 0;
  }();
  return has;
}

// Intel, "Intel SHA Extensions" (2013): the state is kept as ABEF and CDGH.
__attribute__((target("sha,sse4.1"))) void Sha256Blocks(std::span<uint32_t, 8> state,
                                                        const unsigned char* data, size_t count) {
  const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  const __m128i cdab = _mm_shuffle_epi32(Load(&state[0]), 0xB1);
  const __m128i efgh = _mm_shuffle_epi32(Load(&state[4]), 0x1B);
  __m128i abef = _mm_alignr_epi8(cdab, efgh, 8);
  __m128i cdgh = _mm_blend_epi16(efgh, cdab, 0xF0);
  for (; count > 0; --count, data += kSha256BlockBytes) {
    const __m128i abef_before = abef;
    const __m128i cdgh_before = cdgh;
    Schedule words;
    for (size_t i = 0; i < 4; ++i) {
      words.groups[i] = _mm_shuffle_epi8(Load(data + 16 * i), big_endian);
    }
#pragma GCC unroll 16
    for (size_t i = 0; i < kGroups; ++i) {
      const __m128i sum = _mm_add_epi32(words.groups[i % 4], Load(&kRoundConstants[4 * i]));
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0E));
      if (i + 4 < kGroups) words.groups[i % 4] = Next(words, i);
    }
    abef = _mm_add_epi32(abef, abef_before);
    cdgh = _mm_add_epi32(cdgh, cdgh_before);
  }
  const __m128i feba = _mm_shuffle_epi32(abef, 0x1B);
  const __m128i dchg = _mm_shuffle_epi32(cdgh, 0xB1);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(&state[0]), _mm_blend_epi16(feba, dchg, 0xF0));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(&state[4]), _mm_alignr_epi8(dchg, feba, 8));
}

#else

bool HasSha256Instructions() { return false; }

void Sha256Blocks(std::span<uint32_t, 8> /*state*/, const unsigned char* /*data*/,
                  size_t /*count*/) {
  std::abort();  // nobody has said that it can
}

#endif

}  // namespace tfdist
