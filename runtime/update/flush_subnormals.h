// While it lives, this thread's arithmetic takes subnormal floats (below 1.2e-38) as zero, as
// TensorFlow's threads do. Momentum that decays without gradients ends there and never leaves, and
// some processors are many times slower with such numbers. Does nothing on processors that it does
// not know.
#pragma once

#if defined(__SSE2__)
#include <xmmintrin.h>
#elif defined(__aarch64__)
#include <cstdint>
#endif

namespace tfdist::runtime {

class FlushSubnormals {
 public:
#if defined(__SSE2__)
  FlushSubnormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ | kFlushToZero | kZeroInputs); }
  ~FlushSubnormals() { _mm_setcsr(before_); }
#elif defined(__aarch64__)
  FlushSubnormals() {
    asm volatile("mrs %0, fpcr" : "=r"(before_));
    asm volatile("msr fpcr, %0" ::"r"(before_ | kFlushToZero));
  }
  ~FlushSubnormals() { asm volatile("msr fpcr, %0" ::"r"(before_)); }
#else
  FlushSubnormals() {}
#endif
  FlushSubnormals(const FlushSubnormals&) = delete;
  FlushSubnormals& operator=(const FlushSubnormals&) = delete;

 private:
#if defined(__SSE2__)
  static constexpr unsigned kFlushToZero = 1U << 15;  // results
  static constexpr unsigned kZeroInputs = 1U << 6;
  unsigned before_;
#elif defined(__aarch64__)
  static constexpr uint64_t kFlushToZero = uint64_t{1} << 24;  // results and inputs
  uint64_t before_ = 0;
#endif
};

}  // namespace tfdist::runtime
