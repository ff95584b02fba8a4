// How long a reader goes on after its deadline has passed.
#pragma once

#include <chrono>

#include "base/clock.h"

namespace tfdist::cli {

// A reader that checks its deadline only while no data arrives waits for ever for a peer that never
// stops sending. A reader that ends right at the deadline loses an answer that arrived while this
// process was stopped. So a reader goes on for one second more, and then ends in any case.
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
