#include "agent/coordinator/mind/host_clocks.h"

#include <algorithm>
#include <cstdlib>

namespace tfdist::agent {
namespace {

// Longer ones tell nothing; and no sum of times below overflows.
constexpr int64_t kLongestTrip = 60'000'000'000;
constexpr int64_t kLatest = INT64_MAX / 4;

bool CanBe(int64_t time_ns) { return time_ns >= 0 && time_ns < kLatest; }

}  // namespace

void HostClocks::Hear(size_t slot, const ClockEcho& echo, int64_t now_ns) {
  const bool possible = CanBe(echo.beat_ns) && CanBe(echo.heard_ns) && CanBe(echo.sent_ns) &&
                        CanBe(echo.wall_ns) && echo.sent_ns >= echo.heard_ns;
  if (!possible || echo.beat_ns > now_ns) return;
  const int64_t trip_ns = (now_ns - echo.beat_ns) - (echo.sent_ns - echo.heard_ns);
  if (trip_ns < 0 || trip_ns > kLongestTrip) return;
  Host& host = hosts_.at(slot);
  const int64_t ahead_ns = ((echo.heard_ns - echo.beat_ns) + (echo.sent_ns - now_ns)) / 2;
  host.exchanges.push_back({ahead_ns, trip_ns / 2});
  if (host.exchanges.size() > kMostExchanges) host.exchanges.pop_front();
  host.wall_ns = echo.wall_ns - echo.sent_ns;
}

std::optional<HostClocks::Exchange> HostClocks::Best(const Host& host) {
  const auto best = std::ranges::min_element(host.exchanges, {}, &Exchange::error_ns);
  if (best == host.exchanges.end()) return std::nullopt;
  return *best;
}

std::optional<int64_t> HostClocks::ToEventTime(size_t slot, int64_t monotonic_ns) const {
  const auto best = Best(hosts_.at(slot));
  if (!best || !CanBe(monotonic_ns)) return std::nullopt;
  return monotonic_ns - best->ahead_ns;
}

std::optional<protocol::event::Clock> HostClocks::News(
    size_t slot, const std::optional<protocol::event::Clock>& known, int64_t now_ns) {
  Host& host = hosts_.at(slot);
  const auto best = Best(host);
  if (!best) return std::nullopt;
  const int64_t offset_ns = host.wall_ns + best->ahead_ns;
  const bool jumped = known && std::abs(known->offset_ns - offset_ns) > kJump;
  const int64_t pause_ns = jumped ? kPauseOfJumps : kPause;
  if (host.told_ns && now_ns - *host.told_ns < pause_ns) return std::nullopt;
  const bool same =
      known && std::abs(known->offset_ns - offset_ns) <= known->error_ns + best->error_ns + kStep;
  // The first exchange comes while the job starts, and may have taken long.
  const bool better = known && best->error_ns + kStep <= known->error_ns / 2;
  if (same && !better) return std::nullopt;
  host.told_ns = now_ns;
  return protocol::event::Clock{static_cast<int>(slot), offset_ns, best->error_ns};
}

}  // namespace tfdist::agent
