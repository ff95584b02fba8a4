#include "cli/show/usage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/render/table.h"

namespace tfdist::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

TaskUsage Task(const std::string& name, const std::string& host) {
  TaskUsage task{
      .task = name, .host = host, .state = "running", .pid = 7, .known = true, .look = {}};
  task.look.cpu_percent = 149.6;
  task.look.memory_bytes = uint64_t{3} << 29;
  task.look.processes = 2;
  return task;
}

TEST(UsageTest, SaysWhatATaskUses) {
  TaskUsage task = Task("worker:0", "gpu1");
  task.look.gpus = {{0, 87, uint64_t{30} << 30, uint64_t{80} << 30}, {1, 0, 512 << 20, 1}};
  EXPECT_THAT(
      UsageTable({task}, 0, 0),
      ElementsAre(
          "TASK      CPU   MEMORY   GPU                             PROCESSES  HOST  STATE",
          "worker:0  150%  1.5 GiB  0: 87% 30.0 GiB, 1: 0% 512 MiB  2          gpu1  running"));
}

TEST(UsageTest, OfAHostWithoutAnswerNothingIsKnown) {
  TaskUsage task = Task("worker:0", "gpu1");
  task.known = false;
  EXPECT_THAT(UsageTable({task}, 0, 0)[1], HasSubstr("worker:0  -    -"));
  EXPECT_TRUE(UsageJson({task})[0]["cpu_percent"].is_null());
}

TEST(UsageTest, FitsIntoTheTerminal) {
  std::vector<TaskUsage> tasks;
  for (int at = 0; at < 50; ++at) tasks.push_back(Task("worker:" + std::to_string(at), "gpü1"));
  const auto table = UsageTable(tasks, 20, 10);
  EXPECT_THAT(table, SizeIs(10));
  for (const std::string& line : table) EXPECT_LE(DisplayWidth(line), 20U);
  EXPECT_EQ(table.back(), "and 42 more");
}

TEST(UsageTest, AHostCannotControlTheTerminal) {
  EXPECT_THAT(UsageTable({Task("worker:0", "\x1b[2J")}, 0, 0)[1], HasSubstr("^[[2J"));
}

}  // namespace
}  // namespace tfdist::cli
