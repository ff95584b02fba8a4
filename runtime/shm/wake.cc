#include "runtime/shm/wake.h"

namespace tfdist::runtime::shm {
namespace {

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

Spin::Spin(const SpinHabit& habit) : end_(SystemClock().Now() + habit.limit()) {}

bool Spin::Again() {
  Pause();
  constexpr unsigned kRoundsPerLook = 16;  // the clock costs as much as a pause
  return ++rounds_ % kRoundsPerLook != 0 || SystemClock().Now() < end_;
}

}  // namespace tfdist::runtime::shm
