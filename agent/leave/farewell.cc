#include "agent/leave/farewell.h"

#include <utility>

namespace tfdist::agent {

Farewell::Farewell(EventLoop& loop, std::function<bool()> has_readers,
                   std::chrono::milliseconds linger, std::function<void()> leave)
    : has_readers_(std::move(has_readers)),
      linger_(linger),
      leave_(std::move(leave)),
      timer_(loop, [this] { Check(); }) {}

void Farewell::Begin() {
  if (began_) return;
  began_ = SystemClock().Now();
  Check();
}

void Farewell::Check() {
  const auto since = SystemClock().Now() - *began_;
  const bool reading = has_readers_();
  had_readers_ = had_readers_ || reading;
  const bool wait = reading ? since < kReadersLimit : !had_readers_ && since < linger_;
  if (wait) return timer_.Start(kInterval);
  leave_();
}

}  // namespace tfdist::agent
