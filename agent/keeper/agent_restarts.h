// When to start the agent again: at once the first time, later and later while it keeps dying.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

#include "base/clock.h"

namespace tfdist::agent {

class AgentRestarts {
 public:
  // An agent that lived this long was sound: the next one starts at once again.
  static constexpr std::chrono::seconds kSound{10};
  // Without a sound agent for so long nobody watches over the tasks: as long as orphan_timeout (docs/faults.md).
  static constexpr std::chrono::minutes kHopeless{5};

  explicit AgentRestarts(TimePoint now) : last_sound_(now), due_(now) {}

  void OnStart(TimePoint now) {
    started_ = now;
    due_.reset();
  }
  void OnEnd(TimePoint now) {
    if (now - started_ >= kSound) {
      delay_ = std::chrono::milliseconds(0);
      last_sound_ = now;
    }
    due_ = now + delay_;
    delay_ = delay_.count() == 0 ? kFirstDelay : std::min(2 * delay_, kLastDelay);
  }
  // When one is to be started; nullopt while one runs.
  [[nodiscard]] const std::optional<TimePoint>& due() const { return due_; }
  [[nodiscard]] bool Hopeless(TimePoint now) const { return now - last_sound_ >= kHopeless; }

 private:
  static constexpr std::chrono::milliseconds kFirstDelay{100};
  static constexpr std::chrono::milliseconds kLastDelay{5000};

  std::chrono::milliseconds delay_{0};
  TimePoint last_sound_;
  TimePoint started_{};
  std::optional<TimePoint> due_;
};

}  // namespace tfdist::agent
