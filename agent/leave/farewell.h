// When an agent whose job is over may go: not before its readers have the last byte.
#pragma once

#include <chrono>
#include <functional>
#include <optional>

#include "agent/loop/event_loop.h"
#include "base/clock.h"

namespace tfdist::agent {

class Farewell {
 public:
  // `linger`: for a reader that is about to come, where none is there. `leave` is called once.
  Farewell(EventLoop& loop, std::function<bool()> has_readers, std::chrono::milliseconds linger,
           std::function<void()> leave);

  // The job is over. Again: nothing.
  void Begin();

 private:
  static constexpr std::chrono::minutes kReadersLimit{10};
  static constexpr std::chrono::milliseconds kInterval{20};

  void Check();

  std::function<bool()> has_readers_;
  std::chrono::milliseconds linger_;
  std::function<void()> leave_;
  std::optional<TimePoint> began_;
  bool had_readers_ = false;
  EventLoop::Timer timer_;
};

}  // namespace tfdist::agent
