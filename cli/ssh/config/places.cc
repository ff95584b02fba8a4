#include "cli/ssh/config/places.h"

namespace tfdist::ssh {

Places::Place Places::Take(const std::string& name, size_t limit, TimePoint& deadline) {
  const TimePoint begin = SystemClock().Now();
  const MutexLock lock(mutex_);
  while (taken_[name] >= limit) changed_.wait(mutex_);
  ++taken_[name];
  deadline += SystemClock().Now() - begin;
  return {*this, name};
}

void Places::Leave(const std::string& name) {
  const MutexLock lock(mutex_);
  --taken_[name];
  changed_.notify_all();
}

}  // namespace tfdist::ssh
