#include "cli/ssh/places.h"

namespace tfdist::ssh {

Places::Place Places::Take(const std::string& name, size_t limit, TimePoint& deadline) {
  const TimePoint begin = SystemClock().Now();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return taken_[name] < limit; });
  ++taken_[name];
  deadline += SystemClock().Now() - begin;
  return {*this, name};
}

void Places::Leave(const std::string& name) {
  const std::scoped_lock lock(mutex_);
  --taken_[name];
  changed_.notify_all();
}

}  // namespace tfdist::ssh
