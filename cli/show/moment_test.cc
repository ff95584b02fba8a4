#include "cli/show/moment.h"

#include <gtest/gtest.h>

#include "base/failures.h"

namespace tfdist::cli {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kNow = 1'785'585'600 * kSecond;  // 2026-08-01T12:00:00Z

TEST(Moment, IsAnAgeOrATime) {
  EXPECT_EQ(ParseMoment("--since", "500ms", kNow), kNow - kSecond / 2);
  EXPECT_EQ(ParseMoment("--since", "10m", kNow), kNow - 600 * kSecond);
  EXPECT_EQ(ParseMoment("--since", "7d", kNow), kNow - 7 * 86400 * kSecond);
  for (const char* same : {"2026-08-01T12:00Z", "2026-08-01 12:00", "2026-08-01 12:00:00",
                           "2026-08-01T12:00:00", "2026-08-01T12:00:00.000Z"}) {
    EXPECT_EQ(ParseMoment("--since", same, 0), kNow) << same;
  }
  EXPECT_EQ(ParseMoment("--since", "05:00", kNow), kNow - 7 * 3600 * kSecond);
  EXPECT_EQ(ParseMoment("--since", "12:00:00Z", kNow), kNow);
  EXPECT_EQ(ParseMoment("--since", "12:01", kNow), kNow + (60 - 86400) * kSecond);
  EXPECT_EQ(ParseMoment("--since", "2026-08-01T12:00:01.25Z", 0), kNow + 5 * kSecond / 4);
}

TEST(Moment, IsRefusedByTheNameOfItsOption) {
  for (const char* bad :
       {"", "10", "-5m", "yesterday", "2026-08-01", "2026-08-01T12:00:00+02:00", "9999999d", "-1d",
        "2026-08-01T12:00:00.", "2026-13-01T12:00Z", "25:00", "5:00pm", "2026-08-01  "}) {
    try {
      ParseMoment("--until", bad, kNow);
      ADD_FAILURE() << bad;
    } catch (const UsageError& error) {
      EXPECT_TRUE(error.cause().starts_with("--until: expected")) << bad;
    }
  }
}

}  // namespace
}  // namespace tfdist::cli
