#include "runtime/ps/finite.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace tfdist::runtime {

// On the bits, without a branch: a loop that compilers turn into vector instructions, where
// std::isfinite leaves with the first bad value and stays scalar. Compiled with -O3 for that.
bool AllFinite(std::span<const float> values) {
  constexpr uint32_t kExponent = 0x7f800000;
  uint32_t bad = 0;
  const float* const from = values.data();
  const size_t count = values.size();
  for (size_t i = 0; i < count; ++i) {
    bad |= static_cast<uint32_t>((std::bit_cast<uint32_t>(from[i]) & kExponent) == kExponent);
  }
  return bad == 0;
}

size_t FirstNotFinite(std::span<const float> values) {
  const auto bad = std::find_if_not(values.begin(), values.end(),
                                    [](float value) { return std::isfinite(value); });
  return static_cast<size_t>(std::min(bad, values.end() - 1) - values.begin());
}

}  // namespace tfdist::runtime
