#include "cli/show/plan_difference.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tfdist::cli {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Of workers 0, 1, ... on one port.
JobRecord Job(int tasks, const std::string& command, int port = 2222,
              const std::string& restart = "gang/3/2000ms",
              const std::string& steps = "sha256:11111111") {
  JobRecord record;
  for (int i = 0; i < tasks; ++i) {
    const std::string id = fmt::format("worker:{}", i);
    record.tasks.push_back({id, i,
                            fmt::format("{} on h{} port {} gpus decided on the host restart {} "
                                        "output merged log 1073741824 grace "
                                        "10000ms: {} STEPS={}",
                                        id, i, port, restart, command, steps),
                            command});
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

TEST(PlanDifference, NamesTheKeysOfTheFile) {
  EXPECT_THAT(PlanDifferences(Job(8, "tick"), Job(8, "tick", 2300)),
              ElementsAre("port of worker:[0-7]: 2222 -> 2300"));
  EXPECT_THAT(
      PlanDifferences(Job(1, "tick"), Job(1, "tick", 2222, "task/5/2000ms", "sha256:22222222")),
      ElementsAre(
          "env.STEPS of worker:0: another value",
          "restart of worker:0: gang, limit 3, backoff 2000ms -> task, limit 5, backoff 2000ms"));
  JobRecord moved = Job(1, "tick");
  moved.tasks[0].line.replace(moved.tasks[0].line.find("h0"), 2, "h9");
  EXPECT_THAT(PlanDifferences(Job(1, "tick"), moved), ElementsAre("host of worker:0: h0 -> h9"));
}

TEST(PlanDifference, OfManyTasksIsCut) {
  JobRecord other = Job(20, "tick");
  for (size_t i = 0; i < other.tasks.size(); ++i) {
    std::string& line = other.tasks[i].line;
    line.replace(line.find("2222"), 4, fmt::format("{}", 3000 + i));
  }
  const auto lines = PlanDifferences(Job(20, "tick"), other);
  ASSERT_EQ(lines.size(), 9U);
  EXPECT_EQ(lines[0], "port of worker:0: 2222 -> 3000");
  EXPECT_EQ(lines[8], "and 12 other differences");
}

}  // namespace
}  // namespace tfdist::cli
