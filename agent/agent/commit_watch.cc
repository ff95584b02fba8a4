#include "agent/agent/commit_watch.h"

#include <utility>

#include "base/log.h"

namespace tfdist::agent {

CommitWatch::CommitWatch(EventLoop& loop, std::chrono::milliseconds limit,
                         std::function<bool()> settled, std::function<void()> give_up)
    : limit_(limit),
      settled_(std::move(settled)),
      give_up_(std::move(give_up)),
      heard_(std::chrono::steady_clock::now()),
      timer_(loop, [this] { Check(); }) {
  timer_.Start(kInterval);
}

void CommitWatch::Heard() { heard_ = std::chrono::steady_clock::now(); }

TimePoint::duration CommitWatch::silence() const {
  return std::chrono::steady_clock::now() - heard_;
}

void CommitWatch::Check() {
  if (settled_()) return;
  if (silence() < limit_) return timer_.Start(kInterval);
  Log("not committed, and nothing heard: giving up");
  give_up_();
}

}  // namespace tfdist::agent
