#include "cli/show/timeline.h"

#include <gtest/gtest.h>

namespace tfdist::cli {
namespace {

using namespace std::chrono_literals;

TEST(Timeline, ShowsTheSlowestHostFirstAndWhy) {
  const std::vector<HostTimes> hosts = {
      {"gpu1", {{"connect", 10ms}, {"login", 20ms}}},
      {"gpu2", {{"connect", 500ms}, {"login", 21ms}, {"upload", 1500us}}},
      {"gpu3", {{"connect", 12ms}, {"login", 600ms}}},
      {"gpu4", {{"connect", 11ms}, {"login", 22ms}}},
  };
  EXPECT_EQ(TimelineText(hosts, 1234ms),
            "HOST    total ms  connect  login  upload\n"
            "gpu3    612.0     12.0     600.0  0.0\n"
            "gpu2    522.5     500.0    21.0   1.5\n"
            "gpu4    33.0      11.0     22.0   0.0\n"
            "gpu1    30.0      10.0     20.0   0.0\n"
            "median  33.0      11.0     21.0   0.0\n"
            "bring-up of 4 hosts: 1.23 s\n"
            "slowest: gpu3, 0.61 s; 0.58 s of it more than the median host in: login\n");
}

TEST(Timeline, PutsAStepThatOneHostAloneTookBehindTheOneBefore) {
  const std::vector<HostTimes> hosts = {
      {"gpu1", {{"connect", 1ms}, {"hello", 1ms}}},
      {"gpu2", {{"connect", 1ms}, {"upload", 1ms}, {"hello", 1ms}}}};
  EXPECT_TRUE(TimelineText(hosts, 1ms).starts_with("HOST    total ms  connect  upload  hello\n"));
}

TEST(Timeline, OfOneHostNamesNoneAsTheSlowest) {
  EXPECT_EQ(TimelineText({{"gpu1", {{"connect", 1ms}}}}, 1ms),
            "HOST    total ms  connect\ngpu1    1.0       1.0\nmedian  1.0       1.0\nbring-up of "
            "1 host: 0.00 s\n");
  EXPECT_EQ(TimelineText({}, 1ms), "");
}

TEST(StepTimes, CountsWhatATurnedToStepTookBeforeAsWell) {
  StepTimes times;
  EXPECT_EQ(times.current(), nullptr);
  for (const char* step : {"connect", "upload", "connect"}) times.Begin(step);
  EXPECT_STREQ(times.current(), "connect");
  times.Begin(nullptr);
  ASSERT_EQ(times.spent().size(), 2U);
  EXPECT_STREQ(times.spent()[0].step, "connect");
  EXPECT_STREQ(times.spent()[1].step, "upload");
  times.Begin(nullptr);
  EXPECT_EQ(times.spent().size(), 2U);
}

}  // namespace
}  // namespace tfdist::cli
