#include "agent/leave/commit_watch.h"

#include <utility>

#include "base/log.h"

namespace tfdist::agent {

CommitWatch::CommitWatch(EventLoop& loop, std::chrono::milliseconds limit,
                         std::function<bool()> settled, std::function<void()> give_up)
    : limit_(limit),
      settled_(std::move(settled)),
      give_up_(std::move(give_up)),
      heard_(SystemClock().Now()),
      timer_(loop, [this] { Check(); }) {
  timer_.Start(kInterval);
}

void CommitWatch::Heard() { heard_ = SystemClock().Now(); }

TimePoint::duration CommitWatch::silence() const { return SystemClock().Now() - heard_; }

void CommitWatch::Check() {
  if (settled_()) return;
  if (silence() < limit_) return timer_.Start(kInterval);
  Log("not committed, and nothing heard: giving up");
  give_up_();
}

}  // namespace tfdist::agent
