#include "cli/show/plan_difference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tfdist::cli {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Of workers 0, 1, ...
JobRecord Job(int tasks, const std::string& command, int port = 2222) {
  JobRecord record;
  for (int i = 0; i < tasks; ++i) {
    const std::string id = "worker:" + std::to_string(i);
    record.tasks.push_back(
        {id, i, id + " port " + std::to_string(port) + ": " + command + " A=1", command});
  }
  return record;
}

TEST(PlanDifference, OfOneCommandIsOneLine) {
  EXPECT_THAT(PlanDifferences(Job(8, "tick"), Job(8, "tick 2")),
              ElementsAre("command of worker:[0-7]: tick -> tick 2"));
  EXPECT_THAT(PlanDifferences(Job(2, "tick"), Job(2, "tick")), IsEmpty());
}

TEST(PlanDifference, NamesTasksThatOnlyOneOfThemHas) {
  EXPECT_THAT(PlanDifferences(Job(1, "tick"), Job(3, "tick")), ElementsAre("worker:[1-2] is new"));
  EXPECT_THAT(PlanDifferences(Job(2, "tick"), Job(1, "tick")), ElementsAre("worker:1 is gone"));
}

TEST(PlanDifference, ShowsFewTasksWhole) {
  const auto lines = PlanDifferences(Job(8, "tick"), Job(8, "tick", 2300));
  ASSERT_EQ(lines.size(), 7U);
  EXPECT_EQ(lines[0], "- worker:0 port 2222: tick A=1");
  EXPECT_EQ(lines[1], "+ worker:0 port 2300: tick A=1");
  EXPECT_EQ(lines[6], "and 5 more tasks differ");
}

}  // namespace
}  // namespace tfdist::cli
