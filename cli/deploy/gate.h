// A barrier of the hosts' threads: opens when all have arrived and none has failed.
#pragma once

#include <condition_variable>

#include "base/clock.h"
#include "base/thread_annotations.h"

namespace tfdist::cli {

// Shared by all hosts' threads. Shuts when the last thread has arrived and at least one has failed,
// so every host finishes its attempt and one failure hides no other. Shuts at once when cancelled.
class Gate {
 public:
  enum class State { kWaiting, kOpen, kShut };

  explicit Gate(size_t count) : missing_(count) {}
  void Arrive(bool well);
  void Cancel();
  // The state now, or as soon as it is decided, at the latest after `patience`.
  State Wait(std::chrono::milliseconds patience);

 private:
  [[nodiscard]] State Decide() const REQUIRES(mutex_);

  Mutex mutex_;
  std::condition_variable_any changed_;
  size_t missing_ GUARDED_BY(mutex_);
  bool all_well_ GUARDED_BY(mutex_) = true;
  bool cancelled_ GUARDED_BY(mutex_) = false;
};

}  // namespace tfdist::cli
