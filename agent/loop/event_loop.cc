#include "agent/loop/event_loop.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/error.h"
#include "base/log.h"

namespace tfdist::agent {
namespace {

// One bad peer or file must not end the agent.
void CallGuarded(const std::function<void()>& callback) {
  try {
    callback();
  } catch (const std::exception& e) {
    Log("{}, going on", e.what());
  }
}

}  // namespace

struct EventLoop::Watch::Entry {
  int fd;
  short events;
  std::function<void(short)> on_ready;
  bool alive = true;
};

struct EventLoop::Timer::Entry {
  std::function<void()> on_time;
  TimePoint deadline{};
  bool running = false;
};

struct EventLoop::Hook::Entry {
  std::function<void()> before_wait;
  bool alive = true;
};

// --- Watch ---

EventLoop::Watch::Watch(EventLoop& loop, int fd, short events, std::function<void(short)> on_ready)
    : loop_(&loop), entry_(std::make_shared<Entry>(Entry{fd, events, std::move(on_ready)})) {
  loop.watches_.push_back(entry_);
}

EventLoop::Watch& EventLoop::Watch::operator=(Watch&& other) noexcept {
  std::swap(loop_, other.loop_);
  std::swap(entry_, other.entry_);
  return *this;
}

EventLoop::Watch::~Watch() {
  if (entry_ == nullptr) return;
  entry_->alive = false;
  std::erase(loop_->watches_, entry_);
}

void EventLoop::Watch::SetEvents(short events) { entry_->events = events; }

// --- Timer ---

EventLoop::Timer::Timer(EventLoop& loop, std::function<void()> on_time)
    : loop_(loop), entry_(std::make_shared<Entry>(Entry{std::move(on_time)})) {}

EventLoop::Timer::~Timer() { Stop(); }

void EventLoop::Timer::Start(std::chrono::milliseconds delay) {
  Stop();
  entry_->running = true;
  entry_->deadline = SystemClock().Now() + delay;
  loop_.timers_.emplace(entry_->deadline, entry_);
}

void EventLoop::Timer::Stop() {
  if (!entry_->running) return;
  entry_->running = false;
  auto [first, last] = loop_.timers_.equal_range(entry_->deadline);
  const auto found =
      std::find_if(first, last, [this](const auto& item) { return item.second == entry_; });
  loop_.timers_.erase(found);
}

bool EventLoop::Timer::running() const { return entry_->running; }

// --- Hook ---

EventLoop::Hook::Hook(EventLoop& loop, std::function<void()> before_wait)
    : loop_(loop), entry_(std::make_shared<Entry>(Entry{std::move(before_wait)})) {
  loop.hooks_.push_back(entry_);
}

EventLoop::Hook::~Hook() {
  entry_->alive = false;
  std::erase(loop_.hooks_, entry_);
}

// --- the loop ---

EventLoop::EventLoop() : wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!wake_.valid()) throw Error(Phase::kInternal, WithErrno("eventfd", errno));
  wake_watch_ = Watch(*this, wake_.get(), POLLIN, [this](short) { RunPosted(); });
}

void EventLoop::Post(std::function<void()> callback) {
  {
    const MutexLock lock(mutex_);
    posted_.push_back(std::move(callback));
  }
  // Fails only when the counter is full, and then the loop is awake anyway.
  (void)!eventfd_write(wake_.get(), 1);
}

void EventLoop::Run() {
  stopping_ = false;
  while (!stopping_) {
    RunHooks();
    if (stopping_) break;
    Wait();
    RunDueTimers();
  }
}

void EventLoop::RunHooks() {
  const auto round = hooks_;
  for (const auto& entry : round) {
    if (entry->alive) CallGuarded(entry->before_wait);
  }
}

void EventLoop::Wait() {
  std::vector<pollfd> fds;
  fds.reserve(watches_.size());
  for (const auto& entry : watches_) fds.push_back({entry->fd, entry->events, 0});
  // A callback may end any watch: these copies keep the entries until the round is over.
  const auto round = watches_;
  if (poll(fds.data(), fds.size(), TimeoutMs()) < 0 && errno != EINTR) {
    throw Error(Phase::kInternal, WithErrno("poll", errno));
  }
  for (size_t i = 0; i < fds.size(); ++i) {
    const short revents = fds[i].revents;
    if (revents == 0 || !round[i]->alive) continue;
    CallGuarded([&] { round[i]->on_ready(revents); });
  }
}

int EventLoop::TimeoutMs() {
  if (timers_.empty()) return -1;
  return PollTimeout(SystemClock().Now(), timers_.begin()->first);
}

void EventLoop::RunDueTimers() {
  const TimePoint now = SystemClock().Now();
  while (!timers_.empty() && timers_.begin()->first <= now) {
    const auto entry = timers_.begin()->second;
    timers_.erase(timers_.begin());
    entry->running = false;
    CallGuarded(entry->on_time);
  }
}

void EventLoop::RunPosted() {
  eventfd_t count = 0;
  eventfd_read(wake_.get(), &count);
  std::vector<std::function<void()>> batch;
  {
    const MutexLock lock(mutex_);
    batch.swap(posted_);
  }
  for (const auto& callback : batch) CallGuarded(callback);
}

}  // namespace tfdist::agent
