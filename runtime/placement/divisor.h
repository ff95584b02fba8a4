// Division by a number that is known only at run time and used for many dividends: by one
// multiplication each, which takes a fraction of the time of the machine's own division.
#pragma once

#include <cstdint>
#include <limits>

namespace tfdist::runtime {

class Divisor {
 public:
  // `value` from 1 to 2^32.
  explicit Divisor(uint64_t value) : factor_(std::numeric_limits<uint64_t>::max() / value) {}

  // Rounded down, and exact for every `dividend`. The factor is 2^64 / value, rounded down, which
  // alone would give one too little for multiples of `value`; the 1 added to the dividend makes up
  // for that and, as factor and dividend have only 64 and 32 bits, for no more than that
  // (A. D. Robison, "N-bit unsigned division via N-bit multiply-add", ARITH 2005).
  [[nodiscard]] uint32_t Quotient(uint32_t dividend) const {
    __extension__ using Product = unsigned __int128;
    return static_cast<uint32_t>((Product{factor_} * (uint64_t{dividend} + 1)) >> 64);
  }

 private:
  uint64_t factor_;
};

}  // namespace tfdist::runtime
