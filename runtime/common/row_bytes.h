// Copies of rows whose length the compiler knows.
#pragma once

#include <cstddef>
#include <type_traits>

namespace tfdist::runtime {

// Calls `use` with the length of a row in bytes: for the common ones as a std::integral_constant,
// so that a loop over rows is compiled once for each. A call of memcpy for every row holds fewer
// of them in flight at once: rows of 64 bytes, anywhere in 640 MB, came a tenth slower (AMD
// Zen 4).
template <typename Use>
void WithRowBytes(size_t row_bytes, const Use& use) {
  switch (row_bytes) {
    case 32:
      return use(std::integral_constant<size_t, 32>());
    case 64:
      return use(std::integral_constant<size_t, 64>());
    case 128:
      return use(std::integral_constant<size_t, 128>());
    case 256:
      return use(std::integral_constant<size_t, 256>());
    default:
      return use(row_bytes);
  }
}

}  // namespace tfdist::runtime
