#include "runtime/client/waiter.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <string>

namespace tfdist::runtime {
namespace {

using std::chrono::duration;
using std::chrono::duration_cast;
using std::chrono::milliseconds;
using std::chrono::seconds;

// How often to look whether ZeroMQ has let go of the last message of an answered request.
constexpr milliseconds kBorrowedLook{1};
constexpr int kYieldsBeforeLook = 50;
// How long a server that is late is waited for from when that is seen.
constexpr seconds kLastLook{5};
// What a wake-up takes on a busy machine.
constexpr milliseconds kLate{500};

}  // namespace

TimePoint Wait::EndOf(TimePoint now, TimePoint deadline) {
  if (now < deadline) {
    last_look_ = TimePoint::min();
    return deadline;
  }
  if (now >= last_look_ + kLate) last_look_ = now + kLastLook;
  return last_look_;
}

Wait Waiter::Begin(const RequestState* state) const {
  return {state, SystemClock().Now(), options_.notice_interval};
}

std::optional<Error> Waiter::Continue(Wait& wait, bool& slept) {
  // All answered, and ZeroMQ is about to let go of the caller's memory.
  const bool only_borrowed = wait.state_ != nullptr && wait.state_->servers == 0;
  if (only_borrowed && ++wait.yields_ < kYieldsBeforeLook) {
    sched_yield();
    return std::nullopt;
  }
  const auto now = SystemClock().Now();
  if (now >= wait.next_notice_) {
    SayWhatItWaitsFor(wait, now);
    wait.next_notice_ = now + options_.notice_interval;
  }
  const auto end = wait.EndOf(now, Deadline(wait));
  if (now >= end) return TimedOut(wait);
  const auto wake = std::min(wait.next_notice_, end);
  slept = WaitForInput(only_borrowed ? std::min(wake, now + kBorrowedLook) : wake, now);
  return std::nullopt;
}

// Of all servers that are waited for, the first to have been silent for too long.
TimePoint Waiter::Deadline(const Wait& wait) const {
  TimePoint deadline = TimePoint::max();
  for (const auto& link : links_) {
    if (link->WaitsFor(wait.state_).empty()) continue;
    deadline = std::min(deadline,
                        std::max(wait.begin_, link->facts().last_answer) + options_.server_timeout);
  }
  return deadline == TimePoint::max() ? wait.begin_ + options_.server_timeout : deadline;
}

// Whether it went to sleep.
bool Waiter::WaitForInput(TimePoint until, TimePoint now) {
  const bool sleep = !SpinForInput();
  if (sleep) SleepForInput(PollTimeout(now, until));
  blocked_seconds_ += duration<double>(SystemClock().Now() - now).count();
  return sleep;
}

bool Waiter::SpinForInput() {
  const auto any = [&](auto what) {
    return std::any_of(links_.begin(), links_.end(),
                       [&](const auto& link) { return what(link->connection()); });
  };
  const auto has_arrived = [](Connection& connection) { return connection.HasArrived(); };
  return any([](const Connection& connection) { return connection.WorthSpinning(); }) &&
         shm::SpinUntil(spin_habit_, [&] { return any(has_arrived); });
}

void Waiter::SleepForInput(int timeout) {
  poll_items_.clear();
  for (const auto& link : links_) {
    if (!link->connection().BeforePoll(poll_items_)) timeout = 0;
  }
  if (poll(poll_items_.data(), poll_items_.size(), timeout) < 0 && errno != EINTR) {
    throw Error(Phase::kInternal, WithErrno("poll", errno));
  }
  for (const auto& link : links_) link->connection().AfterPoll();
}

void Waiter::SayWhatItWaitsFor(const Wait& wait, TimePoint now) const {
  const auto waited = duration_cast<seconds>(now - wait.begin_).count();
  bool said = false;
  for (const auto& link : links_) {
    const std::string what = link->WaitsFor(wait.state_);
    if (what.empty()) continue;
    said = true;
    const std::string& held_for = link->facts().held_for;
    options_.say(
        held_for.empty()
            ? fmt::format("waiting for {} ({}): {} s", link->name(), what, waited)
            : fmt::format("waiting for {}, says {}: {} s", held_for, link->name(), waited));
  }
  // Each has answered: a connection broke meanwhile, and what was sent again is not read.
  if (!said) options_.say(fmt::format("waiting for a send to end: {} s", waited));
}

Error Waiter::TimedOut(const Wait& wait) const {
  for (const auto& link : links_) {
    const std::string what = link->WaitsFor(wait.state_);
    if (what.empty()) continue;
    const bool held = !link->facts().held_for.empty();
    return {Phase::kConnect,
            fmt::format("{} has not answered for {} s ({})", link->name(),
                        duration_cast<seconds>(options_.server_timeout).count(), what),
            held ? "restart the trainers that it waits for; --server-timeout sets how long a "
                   "trainer waits"
                 : "--server-timeout sets how long a trainer waits"};
  }
  return {Phase::kConnect, "a server does not read what was sent to it again"};
}

}  // namespace tfdist::runtime
