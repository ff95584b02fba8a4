#include "cli/job/connector.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tfdist::cli {
namespace {

// Throws the first `failures` times.
struct Question {
  int failures;
  Phase phase;
  int asked = 0;

  int operator()() {
    if (++asked <= failures) throw Error(phase, "end of file");
    return asked;
  }
};

int Ask(Question& question, TimePoint deadline) {
  return AskAgainWhenCutOff(deadline, [&] { return question(); });
}

TEST(AskAgainWhenCutOff, AsksOnceMoreAfterALostConnectionAlone) {
  const TimePoint later = SystemClock().Now() + std::chrono::hours(1);
  Question cut_off{1, Phase::kControl};
  EXPECT_EQ(Ask(cut_off, later), 2);
  Question cut_off_again{2, Phase::kControl};
  EXPECT_THROW(Ask(cut_off_again, later), Error);
  EXPECT_EQ(cut_off_again.asked, 2);
  Question refused{1, Phase::kLogs};
  EXPECT_THROW(Ask(refused, later), Error);
  EXPECT_EQ(refused.asked, 1);
}

TEST(AskAgainWhenCutOff, ButNotAfterItsDeadline) {
  Question late{1, Phase::kControl};
  EXPECT_THROW(Ask(late, SystemClock().Now()), Error);
  EXPECT_EQ(late.asked, 1);
}

}  // namespace
}  // namespace tfdist::cli
