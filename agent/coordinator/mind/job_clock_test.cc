#include "agent/coordinator/mind/job_clock.h"

#include <gtest/gtest.h>

#include "agent/coordinator/testing/control_fixture.h"

namespace tfdist::agent {
namespace {

constexpr int64_t kJobClockSecond = 1'000'000'000;

TEST(JobClock, GoesOnWithTheMonotonicClock) {
  ManualClock clock;
  const JobClock job_clock(clock, 100 * kJobClockSecond);
  EXPECT_EQ(job_clock.NowNs(), 100 * kJobClockSecond);
  clock.Advance(std::chrono::seconds(3));
  EXPECT_EQ(job_clock.NowNs(), 103 * kJobClockSecond);
}

TEST(JobClock, IsNeverBeforeWhatAnEarlierCoordinatorSaid) {
  ManualClock clock;
  JobClock job_clock(clock, 100 * kJobClockSecond);  // the wall clock was set back by an hour
  job_clock.NotBefore(3700 * kJobClockSecond);
  EXPECT_EQ(job_clock.NowNs(), 3700 * kJobClockSecond);
  job_clock.NotBefore(200 * kJobClockSecond);
  EXPECT_EQ(job_clock.NowNs(), 3700 * kJobClockSecond);
}

}  // namespace
}  // namespace tfdist::agent
