// Philox4x32-10: 128 random bits that are a function of a key and of a counter. Source: J. K.
// Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011, section 3.3.
#pragma once

#include <array>
#include <cstdint>

namespace tfdist::runtime {

using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

inline PhiloxCounter Philox(PhiloxCounter counter, PhiloxKey key) {
  constexpr int kRounds = 10;
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t first = uint64_t{0xD2511F53} * counter[0];
    const uint64_t third = uint64_t{0xCD9E8D57} * counter[2];
    counter = {
        static_cast<uint32_t>(third >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(third),
        static_cast<uint32_t>(first >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(first)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

}  // namespace tfdist::runtime
