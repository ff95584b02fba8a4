#include "agent/coordinator/mind/host_clocks.h"

#include <gtest/gtest.h>

namespace tfdist::agent {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kSecond = 1000 * kMs;
constexpr int64_t kNow = 1'000'000 * kSecond;

// A host whose monotonic clock is `ahead` and whose wall clock is `wall` in front of the events'.
ClockEcho Echo(int64_t sent_by_coordinator, int64_t there, int64_t held, int64_t ahead,
               int64_t wall) {
  const int64_t heard = sent_by_coordinator + there + ahead;
  return {.beat_ns = sent_by_coordinator,
          .heard_ns = heard,
          .sent_ns = heard + held,
          .wall_ns = heard + held - ahead + wall};
}

TEST(HostClocks, TheWayThatTakesLeastTimeCounts) {
  HostClocks clocks(1);
  constexpr int64_t kAhead = 5000 * kSecond;
  EXPECT_EQ(clocks.ToEventTime(0, kAhead), std::nullopt);
  // 200 ms there, 0 back: an error of 100 ms. Then 1 ms each way: none.
  clocks.Hear(0, Echo(kNow, 200 * kMs, 700 * kMs, kAhead, 0), kNow + 900 * kMs);
  EXPECT_EQ(clocks.ToEventTime(0, kNow + kAhead), kNow - 100 * kMs);
  clocks.Hear(0, Echo(kNow + kSecond, kMs, 10 * kMs, kAhead, 0), kNow + kSecond + 12 * kMs);
  EXPECT_EQ(clocks.ToEventTime(0, kNow + kAhead), kNow);
}

TEST(HostClocks, AWallClockThatIsWrongIsToldOnceAndAgainWhenItIsSteppedFar) {
  HostClocks clocks(2);
  const auto hear = [&](int64_t now, int64_t wall) {
    clocks.Hear(1, Echo(now - 2 * kMs, kMs, 0, 77 * kSecond, wall), now);
  };
  EXPECT_FALSE(clocks.News(1, {}, kNow));
  hear(kNow, 3 * kSecond);
  const auto first = clocks.News(1, {}, kNow);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->slot, 1);
  EXPECT_EQ(first->offset_ns, 3 * kSecond);
  EXPECT_EQ(first->error_ns, kMs);
  hear(kNow + kSecond, 10 * kSecond);
  EXPECT_FALSE(clocks.News(1, first, kNow + kSecond)) << "it was told just now";
  hear(kNow + 70 * kSecond, 3 * kSecond + 5 * kMs);
  EXPECT_FALSE(clocks.News(1, first, kNow + 70 * kSecond)) << "it is the same";
  hear(kNow + 71 * kSecond, 10 * kSecond);
  const auto second = clocks.News(1, first, kNow + 71 * kSecond);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->offset_ns, 10 * kSecond);
  hear(kNow + 77 * kSecond, 20 * kSecond);
  EXPECT_EQ(clocks.News(1, second, kNow + 77 * kSecond)->offset_ns, 20 * kSecond)
      << "a jump waits no minute";
}

TEST(HostClocks, AFarBetterMeasurementTakesThePlaceOfAPoorFirstOne) {
  HostClocks clocks(1);
  clocks.Hear(0, Echo(kNow, 400 * kMs, 0, kSecond, 0), kNow + 400 * kMs);
  const auto first = clocks.News(0, {}, kNow + 400 * kMs);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->offset_ns, 200 * kMs);
  EXPECT_EQ(first->error_ns, 200 * kMs);
  const int64_t later = kNow + 61 * kSecond;
  clocks.Hear(0, Echo(later, kMs, 0, kSecond, 0), later + 2 * kMs);
  const auto better = clocks.News(0, first, later + 2 * kMs);
  ASSERT_TRUE(better);
  EXPECT_EQ(better->offset_ns, 0);
  EXPECT_EQ(better->error_ns, kMs);
  clocks.Hear(0, Echo(later + 61 * kSecond, 0, 0, kSecond, 0), later + 61 * kSecond);
  EXPECT_FALSE(clocks.News(0, better, later + 61 * kSecond)) << "so little is none";
}

TEST(HostClocks, AnEchoThatCannotBeIsPassedOver) {
  HostClocks clocks(1);
  clocks.Hear(0, {.beat_ns = kNow + 1, .heard_ns = 1, .sent_ns = 2, .wall_ns = 3}, kNow);
  clocks.Hear(0, {.beat_ns = kNow, .heard_ns = 2, .sent_ns = 1, .wall_ns = 3}, kNow + kSecond);
  clocks.Hear(0, {.beat_ns = kNow, .heard_ns = 0, .sent_ns = 2 * kSecond, .wall_ns = 3}, kNow);
  clocks.Hear(0, {.beat_ns = INT64_MIN, .heard_ns = 0, .sent_ns = INT64_MAX, .wall_ns = 3}, kNow);
  EXPECT_EQ(clocks.ToEventTime(0, 1), std::nullopt);
}

}  // namespace
}  // namespace tfdist::agent
