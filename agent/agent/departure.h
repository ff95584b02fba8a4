// The end of this process: tells the coordinator, tidies the folder, lets readers take the last
// answers, then stops the loop.
#pragma once

#include <chrono>
#include <functional>

#include "agent/loop/event_loop.h"
#include "agent/loop/file_thread.h"
#include "agent/slot/slot_folder.h"
#include "base/clock.h"

namespace tfdist::agent {

class Departure {
 public:
  // `last_word` is called once, first. `has_readers`: somebody has not taken all that was sent.
  Departure(EventLoop& loop, FileThread& files, const SlotFolder& folder,
            std::function<void()> last_word, std::function<bool()> has_readers);

  // Again: nothing.
  void Leave();
  [[nodiscard]] bool leaving() const { return leaving_; }

 private:
  // For the last answers to be taken.
  static constexpr std::chrono::milliseconds kLimit{1000};
  static constexpr std::chrono::milliseconds kInterval{5};

  void StopWhenTaken();

  EventLoop& loop_;
  FileThread& files_;
  const SlotFolder& folder_;
  std::function<void()> last_word_;
  std::function<bool()> has_readers_;
  bool leaving_ = false;
  TimePoint limit_;  // set once the folder is tidy
  EventLoop::Timer timer_;
};

}  // namespace tfdist::agent
