#include "cli/deploy/gate.h"

namespace tfdist::cli {

void Gate::Arrive(bool well) {
  const MutexLock lock(mutex_);
  --missing_;
  all_well_ = all_well_ && well;
  if (missing_ == 0) changed_.notify_all();
}

void Gate::Cancel() {
  const MutexLock lock(mutex_);
  cancelled_ = true;
  changed_.notify_all();
}

Gate::State Gate::Wait(std::chrono::milliseconds patience) {
  const MutexLock lock(mutex_);
  if (Decide() == State::kWaiting) changed_.wait_for(mutex_, patience);
  return Decide();
}

Gate::State Gate::Decide() const {
  if (cancelled_) return State::kShut;
  if (missing_ > 0) return State::kWaiting;
  return all_well_ ? State::kOpen : State::kShut;
}

}  // namespace tfdist::cli
