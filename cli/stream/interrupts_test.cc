#include "cli/stream/interrupts.h"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "base/clock.h"

namespace tfdist::cli {
namespace {

// A script that runs the tests with `&` makes it ignored.
[[maybe_unused]] const auto kBeforeTheTests = signal(SIGINT, SIG_DFL);

TEST(Interrupts, AHangUpIsHeardUntilItMayEndTheProcess) {
  Interrupts interrupts;
  interrupts.HearHangUp();
  (void)raise(SIGHUP);
  (void)raise(SIGINT);
  EXPECT_EQ(interrupts.Take(), 2);
}

TEST(Interrupts, TwoAtOnceAreOneAndALaterOneIsAnother) {
  Interrupts interrupts;
  (void)raise(SIGTERM);
  (void)raise(SIGTERM);
  EXPECT_EQ(interrupts.Take(), 1);
  std::this_thread::sleep_until(SystemClock().Now() + std::chrono::milliseconds(150));
  (void)raise(SIGINT);
  EXPECT_EQ(interrupts.Take(), 1);
}

void HangUp(bool is_taken) {
  Interrupts interrupts;
  interrupts.HearHangUp();
  (void)raise(SIGHUP);
  if (is_taken) (void)interrupts.Take();
  interrupts.LetHangUpEnd();
}

TEST(InterruptsDeathTest, AHangUpThatWasHeardBeforeEndsTheProcess) {
  EXPECT_EXIT(HangUp(false), testing::KilledBySignal(SIGHUP), "");
  EXPECT_EXIT(HangUp(true), testing::KilledBySignal(SIGHUP), "");
}

TEST(Interrupts, AnInterruptStaysOneBesideAHangUp) {
  Interrupts interrupts;
  interrupts.HearHangUp();
  (void)raise(SIGHUP);
  (void)raise(SIGTERM);
  interrupts.LetHangUpEnd();
  EXPECT_EQ(interrupts.Take(), 1);
  EXPECT_EQ(interrupts.Take(), 0);
}

}  // namespace
}  // namespace tfdist::cli
