// Monotonic time through an interface that tests can move. Wall-clock time is data only.
#pragma once

#include <chrono>
#include <cstdint>

namespace tfdist {

using TimePoint = std::chrono::steady_clock::time_point;

class Clock {
 public:
  virtual ~Clock() = default;
  [[nodiscard]] virtual TimePoint Now() const = 0;
};

class SystemClock : public Clock {
 public:
  [[nodiscard]] TimePoint Now() const override { return std::chrono::steady_clock::now(); }
};

// Nanoseconds since 1970 UTC: for logs and events, never for a deadline.
inline int64_t WallClockNanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// Milliseconds until `deadline` for poll(2): rounded up, never negative.
inline int PollTimeout(TimePoint now, TimePoint deadline) {
  if (deadline <= now) return 0;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - now).count();
  return left > 3'600'000 ? 3'600'000 : static_cast<int>(left);
}

}  // namespace tfdist
