#include "cli/ssh/config/step_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "base/thread_annotations.h"

namespace tfdist::ssh {

// One thread for all hosts; there is none before the first connection.
class StepWatcher {
 public:
  static StepWatcher& Get() {
    static StepWatcher watcher;
    return watcher;
  }

  void Begin(StepWatch& watch, std::string_view waits_for, TimePoint until) {
    const MutexLock lock(mutex_);
    watch.until_ = until;
    if (waits_for == watch.waits_for_) return;
    watch.waits_for_ = waits_for;
    watch.due_ = SystemClock().Now() + watch.patience_;
    waits_for.empty() ? (void)unsaid_.erase(&watch) : (void)unsaid_.insert(&watch);
    if (!thread_.joinable()) Start();
    changed_.notify_one();
  }

  void End(StepWatch& watch) {
    const MutexLock lock(mutex_);
    watch.waits_for_ = {};
    unsaid_.erase(&watch);
  }

 private:
  StepWatcher() = default;
  ~StepWatcher() {
    {
      const MutexLock lock(mutex_);
      ending_ = true;
    }
    changed_.notify_one();
    if (thread_.joinable()) thread_.join();
  }

  void Start() REQUIRES(mutex_) {
    try {
      thread_ = std::thread([this] { Run(); });
    } catch (const std::system_error&) {
      // An account that is limited to few threads connects without these lines.
    }
  }

  void Run() {
    const MutexLock lock(mutex_);
    while (!ending_) {
      const auto next = std::ranges::min_element(unsaid_, {}, &StepWatch::due_);
      const TimePoint now = SystemClock().Now();
      if (next == unsaid_.end()) {
        changed_.wait(mutex_);
      } else if (const TimePoint due = (*next)->due_; due > now) {
        changed_.wait_for(mutex_, due - now);
      } else {
        StepWatch* const watch = *next;
        unsaid_.erase(next);
        Say(*watch, now);
      }
    }
  }

  static void Say(const StepWatch& watch, TimePoint now) {
    const auto left = std::chrono::round<std::chrono::seconds>(watch.until_ - now);
    watch.say_(
        fmt::format("{}, up to {} s more", watch.waits_for_, std::max<int64_t>(left.count(), 1)));
  }

  Mutex mutex_;
  std::condition_variable_any changed_;
  std::set<StepWatch*> unsaid_ GUARDED_BY(mutex_);
  std::thread thread_ GUARDED_BY(mutex_);
  bool ending_ GUARDED_BY(mutex_) = false;
};

StepWatch::StepWatch(std::function<void(const std::string&)> say,
                     std::chrono::milliseconds patience)
    : say_(std::move(say)), patience_(patience) {}

StepWatch::~StepWatch() { End(); }

void StepWatch::Begin(std::string_view waits_for, TimePoint until) {
  StepWatcher::Get().Begin(*this, waits_for, until);
}

void StepWatch::End() { StepWatcher::Get().End(*this); }

}  // namespace tfdist::ssh
