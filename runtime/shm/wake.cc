#include "runtime/shm/wake.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <ctime>

namespace tfdist::runtime::shm {
namespace {

// Not FUTEX_PRIVATE_FLAG: the other side is another process. See futex(2).
long Futex(std::atomic<uint32_t>& word, int operation, uint32_t value, const timespec* limit) {
  return syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), operation, value, limit, nullptr,
                 0);
}

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

void Sleeper::Announce(uint32_t state, uint64_t wake_at_produced, uint64_t wake_at_consumed) {
  spot_->wake_at_produced.store(wake_at_produced, std::memory_order_relaxed);
  spot_->wake_at_consumed.store(wake_at_consumed, std::memory_order_relaxed);
  spot_->state.store(state, std::memory_order_seq_cst);
}

bool Sleeper::Sleep(std::chrono::nanoseconds limit) {
  const auto whole = std::chrono::floor<std::chrono::seconds>(limit);
  const timespec time = {static_cast<time_t>(whole.count()),
                         static_cast<long>((limit - whole).count())};
  return Futex(spot_->state, FUTEX_WAIT, kInFutex, &time) == 0 || errno != ETIMEDOUT;
}

bool Waker::Wake() {
  // Exchanged, so that a sleeper is woken once, and one that has turned to the bell in the meantime
  // by the bell.
  const uint32_t state = spot_->state.exchange(kAwake, std::memory_order_seq_cst);
  if (state == kInFutex) (void)Futex(spot_->state, FUTEX_WAKE, INT_MAX, nullptr);
  return state == kAtBell;
}

Spin::Spin(const SpinHabit& habit, TimePoint deadline)
    : end_(std::min(deadline, std::chrono::steady_clock::now() + habit.limit())) {}

bool Spin::Again() {
  Pause();
  constexpr unsigned kRoundsPerLook = 16;  // the clock costs as much as a pause
  return ++rounds_ % kRoundsPerLook != 0 || std::chrono::steady_clock::now() < end_;
}

}  // namespace tfdist::runtime::shm
