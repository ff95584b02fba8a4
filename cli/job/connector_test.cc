#include "cli/job/connector.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/failures.h"

namespace tfdist::cli {
namespace {

// Throws an E the first `failures` times.
template <typename E>
struct Question {
  int failures;
  int asked = 0;

  int operator()() {
    if (++asked <= failures) throw E(Phase::kControl, "end of file");
    return asked;
  }
};

template <typename E>
int Ask(Question<E>& question, TimePoint deadline) {
  return AskAgainWhenCutOff(deadline, [&] { return question(); });
}

TEST(AskAgainWhenCutOff, AsksOnceMoreAfterALostConnectionAlone) {
  const TimePoint later = SystemClock().Now() + std::chrono::hours(1);
  Question<LostConnection> cut_off{1};
  EXPECT_EQ(Ask(cut_off, later), 2);
  Question<LostConnection> cut_off_again{2};
  EXPECT_THROW(Ask(cut_off_again, later), Error);
  EXPECT_EQ(cut_off_again.asked, 2);
  Question<Error> refused{1};
  EXPECT_THROW(Ask(refused, later), Error);
  EXPECT_EQ(refused.asked, 1);
}

TEST(AskAgainWhenCutOff, ButNotAfterItsDeadline) {
  Question<LostConnection> late{1};
  EXPECT_THROW(Ask(late, SystemClock().Now()), Error);
  EXPECT_EQ(late.asked, 1);
}

}  // namespace
}  // namespace tfdist::cli
