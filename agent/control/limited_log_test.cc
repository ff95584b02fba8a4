#include "agent/control/limited_log.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "base/log.h"

namespace tfdist::agent {
namespace {

class HandClock : public Clock {
 public:
  [[nodiscard]] TimePoint Now() const override { return now; }
  TimePoint now{};
};

TEST(LimitedLogTest, WritesTenLinesAMinuteAndCountsTheOthers) {
  std::vector<std::string> lines;
  SetLogSink([&](const std::string& line) { lines.push_back(line); });
  HandClock clock;
  LimitedLog log(clock);
  for (int i = 0; i < 1000; ++i) log.Line("refused");
  EXPECT_EQ(lines.size(), 10U);
  clock.now += std::chrono::seconds(61);
  log.Line("refused");
  SetLogSink({});
  ASSERT_EQ(lines.size(), 12U);
  EXPECT_NE(lines[10].find("990 lines"), std::string::npos) << lines[10];
}

}  // namespace
}  // namespace tfdist::agent
