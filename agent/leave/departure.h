// The end of this process: tells the coordinator, tidies the folder, lets readers take the last
// answers and the last output be copied, then stops the loop.
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
  struct Questions {
    std::function<bool()> has_readers;  // somebody has not taken all that was sent
    std::function<bool()> is_copying;   // output is on its way to a shared folder
    std::function<bool()>
        may_go_on;  // the job, once this agent is started again: its folder stays as it is
  };

  // `last_word` is called once, first.
  Departure(EventLoop& loop, FileThread& files, const SlotFolder& folder,
            std::function<void()> last_word, Questions ask);

  // Again: nothing.
  void Leave();
  [[nodiscard]] bool leaving() const { return leaving_; }

 private:
  // For the last answers to be taken.
  static constexpr std::chrono::milliseconds kLimit{1000};
  static constexpr std::chrono::seconds kCopyLimit{30};
  static constexpr std::chrono::milliseconds kInterval{5};

  void StopWhenTaken();

  EventLoop& loop_;
  FileThread& files_;
  const SlotFolder& folder_;
  std::function<void()> last_word_;
  Questions ask_;
  bool leaving_ = false;
  TimePoint tidy_at_;  // set once the folder is tidy
  EventLoop::Timer timer_;
};

}  // namespace tfdist::agent
