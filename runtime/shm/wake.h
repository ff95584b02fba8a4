// How a side sleeps until the other has moved, and is woken without a system call where nobody
// sleeps. It sleeps in poll(2) on the connection's socket: a thread waits for several connections
// and for ZeroMQ at once. To wake it, the other side sends a byte there: the bell.
//
// The sleeper says where its own wake-up lies (`wake_at_...`), then that it sleeps (`sleeping`),
// then looks at the other's counters once more. The waker moves its counter, then looks at
// `sleeping`. All of it is sequentially consistent, so one of the two sees the other: no wake-up is
// lost. Lies in the sleep spot cost the liar its sleep, and nobody else anything but a futile
// system call.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/clock.h"
#include "runtime/shm/layout.h"

namespace tfdist::runtime::shm {

// A side's own spot. Borrows it; one thread.
class Sleeper {
 public:
  explicit Sleeper(SleepSpot& spot) : spot_(&spot) {}
  // From here on the other side rings when a counter of its reaches its number. What is waited for
  // must be looked at once more before sleeping.
  void Announce(uint64_t wake_at_produced, uint64_t wake_at_consumed) {
    spot_->wake_at_produced.store(wake_at_produced, std::memory_order_relaxed);
    spot_->wake_at_consumed.store(wake_at_consumed, std::memory_order_relaxed);
    spot_->sleeping.store(1, std::memory_order_seq_cst);
  }
  void Retract() { spot_->sleeping.store(0, std::memory_order_seq_cst); }

 private:
  SleepSpot* spot_;
};

// The other side's spot. Each call follows the store to the counter that it names. True: ring.
class Waker {
 public:
  explicit Waker(SleepSpot& spot) : spot_(&spot) {}
  [[nodiscard]] bool Produced(uint64_t position) {
    return Sleeps() && position >= spot_->wake_at_produced.load(std::memory_order_relaxed) &&
           Take();
  }
  [[nodiscard]] bool Consumed(uint64_t position) {
    return Sleeps() && position >= spot_->wake_at_consumed.load(std::memory_order_relaxed) &&
           Take();
  }

 private:
  [[nodiscard]] bool Sleeps() const { return spot_->sleeping.load(std::memory_order_seq_cst) != 0; }
  // So that a sleeper is rung for once.
  bool Take() { return spot_->sleeping.exchange(0, std::memory_order_seq_cst) != 0; }
  SleepSpot* spot_;
};

// A short busy wait before a sleep (SpinUntil): a sleep and a wake-up cost 5 us and more, a longer
// spin takes the core from the training. A spin of 20 us that was in vain is followed by short
// ones, and a long one every now and then: where both sides share a core, or the other one computes
// for long, spinning only costs time.
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
  explicit Spin(const SpinHabit& habit);
  // Pauses; false when the time is over.
  bool Again();

 private:
  TimePoint end_;
  unsigned rounds_ = 0;
};

// Whether `arrived()` was true before the habit's limit was over.
template <typename Arrived>
bool SpinUntil(SpinHabit& habit, Arrived arrived) {
  for (Spin spin(habit); spin.Again();) {
    if (!arrived()) continue;
    habit.Paid();
    return true;
  }
  habit.Failed();
  return false;
}

}  // namespace tfdist::runtime::shm
