// The question whether a host that says nothing is off, for others who would know (Target::is_off, others_answered).
#pragma once

#include <chrono>

#include "base/clock.h"
#include "cli/ssh/config/target.h"

namespace tfdist::ssh {

// Of one silence. It is asked after 5 s, and each time that the silence is three times as long: a host that is slow, and
// lives, has all the time that it would have otherwise.
class OffQuestion {
 public:
  explicit OffQuestion(const Target& target) : target_(target) {}

  // When it is due; never where there is nobody to ask.
  [[nodiscard]] TimePoint next() const {
    const bool is_for_nobody = !target_.is_off && !target_.others_answered;
    return is_for_nobody ? TimePoint::max() : begin_ + silence_;
  }
  // Where it is due, asks, which takes its time. True: the host is off.
  bool Ask() {
    if (SystemClock().Now() < next()) return false;
    const bool is_long = silence_ >= kBesideOthers;
    silence_ *= 3;
    return (target_.is_off && target_.is_off()) ||
           (is_long && target_.others_answered && target_.others_answered());
  }

 private:
  // After this silence a host counts as off, if another host has answered.
  static constexpr std::chrono::seconds kBesideOthers{15};

  const Target& target_;
  const TimePoint begin_ = SystemClock().Now();
  std::chrono::seconds silence_{5};
};

}  // namespace tfdist::ssh
