// How a client waits for its servers: spins, sleeps, says what it waits for, and times out.
#pragma once

#include <poll.h>

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "runtime/client.h"
#include "runtime/client/link.h"
#include "runtime/client/request.h"
#include "runtime/shm/wake.h"

namespace tfdist::runtime {

// One wait of a caller.
class Wait {
 public:
  // `state`: the request that is waited for, or nullptr for whatever the servers owe.
  Wait(const RequestState* state, TimePoint begin, std::chrono::milliseconds notice_interval)
      : state_(state), begin_(begin), next_notice_(begin + notice_interval) {}

 private:
  friend class Waiter;
  // Ends the wait. A process that was stopped (SIGSTOP) finds a deadline passed before ZeroMQ's
  // thread has read an answer that has long been there, or has made the connection anew: hence a
  // last look, and another one if it was stopped during that.
  TimePoint EndOf(TimePoint now, TimePoint deadline);

  const RequestState* state_;
  TimePoint begin_;
  TimePoint next_notice_;
  TimePoint last_look_ = TimePoint::min();  // its end
  int yields_ = 0;
};

// Borrows what it is made with.
class Waiter {
 public:
  using Links = std::vector<std::unique_ptr<Link>>;
  Waiter(const ClientOptions& options, const Links& links) : options_(options), links_(links) {}

  [[nodiscard]] Wait Begin(const RequestState* state) const;
  // Waits until something may have arrived. `slept`: the connections are to be looked after. Error:
  // a server has not answered in time.
  [[nodiscard]] std::optional<Error> Continue(Wait& wait, bool& slept);
  [[nodiscard]] double blocked_seconds() const { return blocked_seconds_; }

 private:
  [[nodiscard]] TimePoint Deadline(const Wait& wait) const;
  bool WaitForInput(TimePoint until, TimePoint now);
  bool SpinForInput();
  void SleepForInput(int timeout);
  void SayWhatItWaitsFor(const Wait& wait, TimePoint now) const;
  [[nodiscard]] Error TimedOut(const Wait& wait) const;

  const ClientOptions& options_;
  const Links& links_;
  std::vector<pollfd> poll_items_;  // kept for its allocation
  shm::SpinHabit spin_habit_;
  double blocked_seconds_ = 0;
};

}  // namespace tfdist::runtime
