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
            "MILLISECONDS  MEDIAN  gpu3   gpu2   gpu4\n"
            "all           33.0    612.0  522.5  33.0\n"
            "connect       11.0    12.0   500.0  11.0\n"
            "login         21.0    600.0  21.0   22.0\n"
            "upload        0.0     0.0    1.5    0.0\n"
            "bring-up of 4 hosts: 1.23 s\n"
            "slowest: gpu3, 0.61 s; 0.58 s of it more than the median host in: login\n");
}

TEST(Timeline, PutsAStepThatOneHostAloneTookBehindTheOneBefore) {
  const std::vector<HostTimes> hosts = {
      {"gpu1", {{"connect", 1ms}, {"hello", 1ms}}},
      {"gpu2", {{"connect", 1ms}, {"upload", 1ms}, {"hello", 1ms}}}};
  EXPECT_NE(TimelineText(hosts, 1ms)
                .find("\nconnect       1.0     1.0   1.0\n"
                      "upload        0.0     1.0   0.0\nhello "),
            std::string::npos);
}

TEST(Timeline, OfOneHostNamesNoneAsTheSlowest) {
  EXPECT_EQ(TimelineText({{"gpu1", {{"connect", 1ms}}}}, 1ms),
            "MILLISECONDS  MEDIAN  gpu1\nall           1.0     1.0\nconnect       1.0     1.0\n"
            "bring-up of 1 host: 0.00 s\n");
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
