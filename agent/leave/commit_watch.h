// Until the commit, an agent is there for the CLI alone: when the CLI is silent for too long, the
// agent gives up.
#pragma once

#include <chrono>
#include <functional>

#include "agent/loop/event_loop.h"
#include "base/clock.h"

namespace tfdist::agent {

class CommitWatch {
 public:
  // `settled`: the job is committed, or the agent leaves already; nothing is left to watch.
  // `give_up` is called once at most, on the loop's thread.
  CommitWatch(EventLoop& loop, std::chrono::milliseconds limit, std::function<bool()> settled,
              std::function<void()> give_up);

  // The CLI has been heard.
  void Heard();
  // Since the CLI was heard; at first: since this agent began.
  [[nodiscard]] TimePoint::duration silence() const;

 private:
  static constexpr std::chrono::milliseconds kInterval{200};

  void Check();

  std::chrono::milliseconds limit_;
  std::function<bool()> settled_;
  std::function<void()> give_up_;
  TimePoint heard_;
  EventLoop::Timer timer_;
};

}  // namespace tfdist::agent
