// How far each host's clocks are from the coordinator's, measured by the messages that go to and fro
// anyway: a beat carries the coordinator's time, a report says when that came and when it went out
// itself. As NTP does it (RFC 5905, section 8): half of the time that both took is the error, and of
// the last exchanges the one that took least counts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "wire/control.h"
#include "wire/protocol.h"

namespace tfdist::agent {

class HostClocks {
 public:
  explicit HostClocks(size_t slots) : hosts_(slots) {}

  // At `now_ns`, on the clock of the events' times. An echo that cannot be is passed over.
  void Hear(size_t slot, const ClockEcho& echo, int64_t now_ns);

  // It was restarted: its monotonic clock begins anew.
  void Forget(size_t slot) { hosts_.at(slot).exchanges.clear(); }

  // A time on the host's monotonic clock, on the clock of the events' times; nullopt: not measured.
  [[nodiscard]] std::optional<int64_t> ToEventTime(size_t slot, int64_t monotonic_ns) const;

  // How far the host's wall clock is ahead, where that is news: it was not said before, or, some time later, is another one
  // than `known` beyond all errors, or was measured far better.
  [[nodiscard]] std::optional<protocol::event::Clock> News(
      size_t slot, const std::optional<protocol::event::Clock>& known, int64_t now_ns);

 private:
  // Of a wall clock that runs on. One that is moved to and fro is told once in the pause.
  static constexpr int64_t kStep = 10'000'000;
  static constexpr int64_t kPause = 60'000'000'000;
  // Times of logs are wrong until a jump is known.
  static constexpr int64_t kJump = 1'000'000'000;
  static constexpr int64_t kPauseOfJumps = 5'000'000'000;
  static constexpr size_t kMostExchanges = 16;

  struct Exchange {
    int64_t ahead_ns = 0;  // of the host's monotonic clock
    int64_t error_ns = 0;
  };
  struct Host {
    std::deque<Exchange> exchanges;
    int64_t wall_ns = 0;  // its wall clock minus its monotonic one
    std::optional<int64_t> told_ns;
  };

  [[nodiscard]] static std::optional<Exchange> Best(const Host& host);

  std::vector<Host> hosts_;
};

}  // namespace tfdist::agent
