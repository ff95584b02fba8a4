// How long the bring-up of one host took, step by step.
#pragma once

#include <atomic>
#include <vector>

#include "base/clock.h"

namespace tfdist::cli {

class StepTimes {
 public:
  struct Spent {
    const char* step;  // a string literal; never nullptr
    std::chrono::nanoseconds time;
  };

  // The host's own thread. `step` is a string literal; nullptr: it waits for other hosts, or is
  // through.
  void Begin(const char* step);
  // Any thread.
  [[nodiscard]] const char* current() const { return current_; }
  // In the order in which steps first began. Once the host's thread is through.
  [[nodiscard]] const std::vector<Spent>& spent() const { return spent_; }

 private:
  std::atomic<const char*> current_ = nullptr;
  TimePoint since_{};
  std::vector<Spent> spent_;
};

}  // namespace tfdist::cli
