// How long one goes on reading what is there when a deadline has passed.
#pragma once

#include <chrono>

#include "base/clock.h"

namespace tfdist::cli {

// A reader that looks at its deadline only while nothing comes waits for ever for a peer that never
// stops; one that ends at the deadline loses an answer that came while this process was stopped
// itself. So it reads for a second more, and ends then, whatever comes.
class Grace {
 public:
  [[nodiscard]] bool IsOver(TimePoint deadline) {
    const TimePoint now = SystemClock().Now();
    if (now < deadline) {
      end_ = kNotYet;
      return false;
    }
    if (end_ == kNotYet) end_ = now + std::chrono::seconds(1);
    return now >= end_;
  }

 private:
  static constexpr TimePoint kNotYet = TimePoint::max();

  TimePoint end_ = kNotYet;
};

}  // namespace tfdist::cli
