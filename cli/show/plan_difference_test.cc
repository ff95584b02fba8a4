#include "cli/show/plan_difference.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tfdist::cli {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Of workers 0, 1, ... on one port.
JobRecord Job(int tasks, const std::string& command, int port = 2222) {
  JobRecord record;
  record.settings = {{"layout", "uai"}};
  for (int i = 0; i < tasks; ++i) {
    const Settings settings = {{"host", fmt::format("h{}", i)},
                               {"port", std::to_string(port)},
                               {"env.STEPS", "sha256:11111111"}};
    record.tasks.push_back({fmt::format("worker:{}", i), i, settings, command});
  }
  return record;
}

TEST(PlanDifference, OfOneCommandIsOneLine) {
  EXPECT_THAT(PlanDifferences(Job(8, "tick"), Job(8, "tick 2")),
              ElementsAre("command of worker:[0-7]: tick -> tick 2"));
  EXPECT_THAT(PlanDifferences(Job(2, "tick"), Job(2, "tick")), IsEmpty());
}

TEST(PlanDifference, NamesTasksThatOnlyOneOfThemHas) {
  EXPECT_THAT(PlanDifferences(Job(1, "tick"), Job(3, "tick")), ElementsAre("worker:[1-2] are new"));
  EXPECT_THAT(PlanDifferences(Job(2, "tick"), Job(1, "tick")), ElementsAre("worker:1 is gone"));
}

TEST(PlanDifference, NamesTheKeysOfTheFile) {
  EXPECT_THAT(PlanDifferences(Job(8, "tick"), Job(8, "tick", 2300)),
              ElementsAre("port of worker:[0-7]: 2222 -> 2300"));
  JobRecord other = Job(1, "tick");
  other.tasks[0].settings = {
      {"host", "h9"}, {"port", "2222"}, {"env.STEPS", "sha256:22222222"}, {"venv", "~/torch"}};
  EXPECT_THAT(PlanDifferences(Job(1, "tick"), other),
              ElementsAre("env.STEPS of worker:0: another value", "host of worker:0: h0 -> h9",
                          "venv of worker:0: none -> ~/torch"));
}

TEST(PlanDifference, NamesTheKeysOfTheWholeJob) {
  JobRecord later = Job(2, "tick");
  later.settings["deadline"] = "5m";
  EXPECT_THAT(PlanDifferences(Job(2, "tick"), later), ElementsAre("deadline: none -> 5m"));
  EXPECT_THAT(PlanDifferences(later, Job(2, "tick")), ElementsAre("deadline: 5m -> none"));
}

TEST(PlanDifference, OfAnEarlierVersionsRecordNothingIsKnown) {
  JobRecord earlier = Job(1, "tick");
  earlier.settings.clear();
  earlier.tasks[0].settings.clear();
  EXPECT_THAT(PlanDifferences(earlier, Job(1, "tick 2", 2300)), IsEmpty());
}

TEST(PlanDifference, OfManyTasksIsCut) {
  JobRecord other = Job(20, "tick");
  for (size_t i = 0; i < other.tasks.size(); ++i) {
    other.tasks[i].settings["port"] = std::to_string(3000 + i);
  }
  const auto lines = PlanDifferences(Job(20, "tick"), other);
  ASSERT_EQ(lines.size(), 9U);
  EXPECT_EQ(lines[0], "port of worker:0: 2222 -> 3000");
  EXPECT_EQ(lines[8], "and 12 other differences");
}

}  // namespace
}  // namespace tfdist::cli
