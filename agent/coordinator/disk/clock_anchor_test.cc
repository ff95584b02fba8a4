#include "agent/coordinator/disk/clock_anchor.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <utility>

#include "agent/census/process_table.h"
#include "agent/coordinator/testing/control_fixture.h"
#include "base/file.h"
#include "base/monotonic.h"
#include "base/testing/temporary_folder.h"

namespace tfdist::agent {
namespace {

constexpr int64_t kAnchorSecond = 1'000'000'000;
constexpr int64_t kAnchorYear = 365 * 86'400 * kAnchorSecond;

class ClockAnchorTest : public testing::Test {
 protected:
  // The wall clock was so far behind what it is now when the anchor was written.
  void WriteAnchor(const std::string& boot, int64_t behind_ns) const {
    const int64_t ahead_ns = WallClockNanoseconds() - behind_ns - Nanoseconds(clock_.Now());
    ReplaceFile(path_, boot + " " + std::to_string(ahead_ns) + "\n", 0600);
  }
  // By which the clock of the events is behind the wall clock.
  [[nodiscard]] int64_t Behind() const {
    return WallClockNanoseconds() - EventTimeNow(path_, clock_);
  }

  const TemporaryFolder temporary_;
  const std::filesystem::path path_ = temporary_.path() / "events.jsonl.clock";
  ManualClock clock_;
};

TEST_F(ClockAnchorTest, TheFirstCoordinatorHasTheWallClock) {
  EXPECT_LT(std::abs(Behind()), 60 * kAnchorSecond);
  EXPECT_TRUE(std::filesystem::exists(path_));
}

// As where the disk is busy. Each host's clock would seem to be ahead by that, and times in logs be moved.
TEST_F(ClockAnchorTest, TheTimeThatWritingTakesIsNotLost) {
  class TenSecondsLaterOnceWritten : public Clock {
   public:
    explicit TenSecondsLaterOnceWritten(std::filesystem::path path) : path_(std::move(path)) {}
    [[nodiscard]] TimePoint Now() const override {
      return TimePoint(std::chrono::seconds(std::filesystem::exists(path_) ? 20 : 10));
    }

   private:
    std::filesystem::path path_;
  };
  const TenSecondsLaterOnceWritten clock(path_);
  const int64_t before_ns = WallClockNanoseconds();
  EXPECT_GE(EventTimeNow(path_, clock), before_ns + 10 * kAnchorSecond);
}

TEST_F(ClockAnchorTest, AnotherCoordinatorGoesOnWhereverTheWallClockHasJumpedTo) {
  for (const int64_t jump : {-kAnchorYear, 30 * kAnchorYear}) {
    WriteAnchor(BootId(), jump);
    EXPECT_LT(std::abs(Behind() - jump), 60 * kAnchorSecond);
    clock_.Advance(std::chrono::hours(1));
    EXPECT_LT(std::abs(Behind() - (jump - 3600 * kAnchorSecond)), 60 * kAnchorSecond);
  }
}

TEST_F(ClockAnchorTest, AnotherBootOrADamagedFileSaysNothing) {
  WriteAnchor("another-boot", kAnchorYear);
  EXPECT_LT(std::abs(Behind()), 60 * kAnchorSecond);
  for (const std::string text : {"", " ", "12", "\n"}) {
    ReplaceFile(path_, text, 0600);
    EXPECT_LT(std::abs(Behind()), 60 * kAnchorSecond) << text;
  }
  ReplaceFile(path_, BootId() + " 12x\n", 0600);
  EXPECT_LT(std::abs(Behind()), 60 * kAnchorSecond);
}

}  // namespace
}  // namespace tfdist::agent
