// Names a host that is waited for longer than the user may think.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace tfdist::ssh {

// One connection that is being opened. Belongs to the thread that opens it.
class StepWatch {
 public:
  // `say` gets "connected; waits for its SSH version, up to 55 s more" once a step has taken `patience`, on a thread that all
  // watches share. It is called no more once End() or the destructor has returned.
  explicit StepWatch(std::function<void(const std::string&)> say,
                     std::chrono::milliseconds patience);
  StepWatch(const StepWatch&) = delete;
  StepWatch& operator=(const StepWatch&) = delete;
  ~StepWatch();

  // `waits_for`: a string literal; the same one as before goes on; empty: nothing is said of this step.
  void Begin(std::string_view waits_for, TimePoint until);
  void End();

 private:
  friend class StepWatcher;

  const std::function<void(const std::string&)> say_;
  const std::chrono::milliseconds patience_;
  // Guarded by the mutex of the thread that all share.
  std::string_view waits_for_;
  TimePoint due_{};  // when it is said
  TimePoint until_{};
};

}  // namespace tfdist::ssh
