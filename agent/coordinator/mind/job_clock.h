// The time that a job's events carry: the wall clock as it was when the coordinator started, moved
// on by the monotonic one. It never runs backwards, not even across coordinators, so what is due
// some time after an event becomes due, whatever happens to the host's wall clock.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "base/clock.h"

namespace tfdist::agent {

class JobClock {
 public:
  // `wall_ns`: nanoseconds since 1970 UTC, now.
  JobClock(const Clock& clock, int64_t wall_ns)
      : clock_(clock), origin_ns_(wall_ns), origin_(clock.Now()) {}

  [[nodiscard]] int64_t NowNs() const {
    const auto passed = clock_.Now() - origin_;
    return origin_ns_ + std::chrono::duration_cast<std::chrono::nanoseconds>(passed).count();
  }
  // An earlier coordinator has said that it was this late.
  void NotBefore(int64_t time_ns) { origin_ns_ += std::max<int64_t>(time_ns - NowNs(), 0); }

 private:
  const Clock& clock_;
  int64_t origin_ns_;
  TimePoint origin_;
};

}  // namespace tfdist::agent
