// How a side sleeps until the other has moved, and is woken without a system call where nobody
// sleeps.
//
// The sleeper says where its own wake-up lies (`wake_at_...`), then that it sleeps (`state`), then
// looks at the other's counters once more. The waker moves its counter, then looks at `state`. All
// of it is sequentially consistent, so one of the two sees the other: no wake-up is lost. Lies in
// the sleep spot cost the liar its sleep, and nobody else anything but a futile system call.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/clock.h"
#include "runtime/shm/layout.h"

namespace tfdist::runtime::shm {

// SleepSpot::state
inline constexpr uint32_t kAwake = 0;
inline constexpr uint32_t kInFutex = 1;  // futex(2) on the state itself
inline constexpr uint32_t kAtBell = 2;   // poll(2) on the connection's socket

inline constexpr uint64_t kNever = UINT64_MAX;

// A side's own spot. Borrows it; one thread.
class Sleeper {
 public:
  explicit Sleeper(SleepSpot& spot) : spot_(&spot) {}
  // From here on the other side wakes us when a counter of its reaches its number. What is waited
  // for must be looked at once more before sleeping.
  void Announce(uint32_t state, uint64_t wake_at_produced, uint64_t wake_at_consumed);
  // After kInFutex: sleeps until woken, or for `limit`; may return early. Back at once when the
  // wake-up has come already. False: `limit` is over.
  bool Sleep(std::chrono::nanoseconds limit);
  void Retract() { spot_->state.store(kAwake, std::memory_order_seq_cst); }

 private:
  SleepSpot* spot_;
};

// The other side's spot. Each call follows the store to the counter that it names.
class Waker {
 public:
  explicit Waker(SleepSpot& spot) : spot_(&spot) {}
  // True when the other side is to be woken by the bell, which is the caller's.
  [[nodiscard]] bool Produced(uint64_t position) {
    return Sleeping() && position >= spot_->wake_at_produced.load(std::memory_order_relaxed) &&
           Wake();
  }
  [[nodiscard]] bool Consumed(uint64_t position) {
    return Sleeping() && position >= spot_->wake_at_consumed.load(std::memory_order_relaxed) &&
           Wake();
  }
  // Whatever it waits for.
  [[nodiscard]] bool Wake();

 private:
  [[nodiscard]] bool Sleeping() const {
    return spot_->state.load(std::memory_order_seq_cst) != kAwake;
  }
  SleepSpot* spot_;
};

// A short busy wait before a sleep: a sleep and a wake-up cost 5 us and more, a longer spin takes
// the core from the training.
//   for (Spin spin(habit, deadline); spin.Again();) { if (there is something) return habit.Paid();
//   } habit.Failed();
// A spin of 20 us that was in vain is followed by short ones, and a long one every now and then:
// where both sides share a core, or the other one computes for long, spinning only costs time.
class SpinHabit {
 public:
  [[nodiscard]] std::chrono::nanoseconds limit() const {
    return failures_ % kLongEvery == 0 ? kLong : kShort;
  }
  void Paid() { failures_ = 0; }
  void Failed() { ++failures_; }

 private:
  static constexpr std::chrono::nanoseconds kLong{20'000};
  static constexpr std::chrono::nanoseconds kShort{2'000};
  static constexpr unsigned kLongEvery = 8;
  unsigned failures_ = 0;
};

class Spin {
 public:
  Spin(const SpinHabit& habit, TimePoint deadline);
  // Pauses; false when the time or the deadline are over.
  bool Again();

 private:
  TimePoint end_;
  unsigned rounds_ = 0;
};

}  // namespace tfdist::runtime::shm
