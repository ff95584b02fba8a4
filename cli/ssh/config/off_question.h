// The question whether a host that says nothing is off, for others who would know (Target::is_off).
#pragma once

#include <chrono>

#include "base/clock.h"
#include "cli/ssh/config/target.h"

namespace tfdist::ssh {

// Of one silence. It is asked after 5 s, and each time that the silence is three times as long: a host that is slow, and
// lives, has all the time that it would have otherwise.
class OffQuestion {
 public:
  explicit OffQuestion(const Target& target) : target_(target) { SetNext(); }

  // When it is due; never where there is nobody to ask.
  [[nodiscard]] TimePoint next() const { return next_; }
  // Where it is due, asks, which takes its time. True: the host is off.
  bool Ask() {
    if (SystemClock().Now() < next_) return false;
    const bool is_off = target_.is_off();
    silence_ *= 3;
    SetNext();
    return is_off;
  }

 private:
  void SetNext() { next_ = target_.is_off ? begin_ + silence_ : TimePoint::max(); }

  const Target& target_;
  const TimePoint begin_ = SystemClock().Now();
  std::chrono::seconds silence_{5};
  TimePoint next_{};
};

}  // namespace tfdist::ssh
