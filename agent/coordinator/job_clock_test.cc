#include "agent/coordinator/job_clock.h"

#include <gtest/gtest.h>

#include "agent/coordinator/testing/control_fixture.h"

namespace tfdist::agent {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

TEST(JobClock, GoesOnWithTheMonotonicClock) {
  ManualClock clock;
  const JobClock job_clock(clock, 100 * kSecond);
  EXPECT_EQ(job_clock.NowNs(), 100 * kSecond);
  clock.Advance(std::chrono::seconds(3));
  EXPECT_EQ(job_clock.NowNs(), 103 * kSecond);
}

TEST(JobClock, IsNeverBeforeWhatAnEarlierCoordinatorSaid) {
  ManualClock clock;
  JobClock job_clock(clock, 100 * kSecond);  // the wall clock was set back by an hour
  job_clock.NotBefore(3700 * kSecond);
  EXPECT_EQ(job_clock.NowNs(), 3700 * kSecond);
  job_clock.NotBefore(200 * kSecond);
  EXPECT_EQ(job_clock.NowNs(), 3700 * kSecond);
}

}  // namespace
}  // namespace tfdist::agent
