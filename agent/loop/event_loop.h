// The agent's network thread: one poll(2) loop. Callbacks run on the thread that calls Run(), one
// after the other, and must not block. An Error that leaves a callback is logged, and the loop goes
// on.
#pragma once

#include <poll.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/thread_annotations.h"
#include "base/unique_fd.h"

namespace tfdist::agent {

class EventLoop {
 public:
  EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // Calls `on_ready` with poll(2)'s revents while `fd` is ready. Watching ends with the object,
  // also when that happens inside of its own callback. The descriptor is borrowed.
  class Watch {
   public:
    Watch() = default;
    Watch(EventLoop& loop, int fd, short events, std::function<void(short)> on_ready);
    Watch(Watch&& other) noexcept = default;
    Watch& operator=(Watch&& other) noexcept;
    ~Watch();
    void SetEvents(short events);

   private:
    friend class EventLoop;
    struct Entry;
    EventLoop* loop_ = nullptr;
    std::shared_ptr<Entry> entry_;
  };

  // Calls `on_time` once after each Start, unless stopped or started anew before.
  class Timer {
   public:
    Timer(EventLoop& loop, std::function<void()> on_time);
    Timer(const Timer&) = delete;
    Timer& operator=(const Timer&) = delete;
    ~Timer();
    void Start(std::chrono::milliseconds delay);
    void Stop();
    [[nodiscard]] bool running() const;

   private:
    friend class EventLoop;
    struct Entry;
    EventLoop& loop_;
    std::shared_ptr<Entry> entry_;
  };

  // Calls `before_wait` each time before the loop sleeps: for a ZeroMQ socket, whose descriptor
  // signals edges that a send may have used up (zmq_getsockopt(3), ZMQ_FD).
  class Hook {
   public:
    Hook(EventLoop& loop, std::function<void()> before_wait);
    Hook(const Hook&) = delete;
    Hook& operator=(const Hook&) = delete;
    ~Hook();

   private:
    friend class EventLoop;
    struct Entry;
    EventLoop& loop_;
    std::shared_ptr<Entry> entry_;
  };

  // Runs `callback` on the loop's thread. From any thread.
  void Post(std::function<void()> callback);
  // Returns after Stop().
  void Run();
  // Lets the round in progress end first.
  void Stop() { stopping_ = true; }

 private:
  void RunHooks();
  void Wait();
  void RunDueTimers();
  void RunPosted();
  [[nodiscard]] int TimeoutMs();

  bool stopping_ = false;
  std::vector<std::shared_ptr<Watch::Entry>> watches_;
  std::multimap<TimePoint, std::shared_ptr<Timer::Entry>> timers_;
  std::vector<std::shared_ptr<Hook::Entry>> hooks_;

  UniqueFd wake_;  // eventfd: written by Post
  Watch wake_watch_;
  Mutex mutex_;
  std::vector<std::function<void()>> posted_ GUARDED_BY(mutex_);
};

}  // namespace tfdist::agent
