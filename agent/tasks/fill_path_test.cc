#include "agent/tasks/fill_path.h"

#include <gmock/gmock.h>

namespace tfdist::agent {
namespace {

using protocol::Mount;
using testing::ElementsAre;
using testing::IsEmpty;

TEST(FillPath, ReachesEachTextOfATaskAndItsContainer) {
  const std::string marker = protocol::DataPath("set");
  protocol::TaskDescription task;
  task.argv = {"cat", marker + "/a:" + marker};
  task.env = {{"SET", marker}};
  task.cwd = marker;
  task.container.emplace();
  task.container->mounts = {{marker + "/part", "/data", true}};
  std::vector<protocol::TaskDescription> tasks = {task};
  FillPath(tasks, marker, "/d/set");
  EXPECT_EQ(tasks[0].argv[1], protocol::Text("/d/set/a:/d/set"));
  EXPECT_EQ(tasks[0].env[0].second, protocol::Text("/d/set"));
  EXPECT_EQ(tasks[0].cwd, protocol::Text("/d/set"));
  EXPECT_THAT(tasks[0].container->mounts,
              ElementsAre(Mount{"/d/set/part", "/data", true}, Mount{"/d/set", "/d/set", true}));
}

TEST(FillPath, AMountOfTheUsersAtThatPathIsTheOnlyOne) {
  protocol::TaskDescription task;
  task.container.emplace();
  task.container->mounts = {{protocol::DataPath("set"), "/d/set", false}};
  std::vector<protocol::TaskDescription> tasks = {task};
  FillPath(tasks, protocol::DataPath("set"), "/d/set");
  EXPECT_THAT(tasks[0].container->mounts, ElementsAre(Mount{"/d/set", "/d/set", false}));
}

TEST(FillPath, ATaskThatDoesNotNameItSeesNothingOfIt) {
  protocol::TaskDescription task;
  task.argv = {"cat", protocol::DataPath("other")};
  task.container.emplace();
  std::vector<protocol::TaskDescription> tasks = {task};
  FillPath(tasks, protocol::DataPath("set"), "/d/set");
  EXPECT_EQ(tasks[0].argv, task.argv);
  EXPECT_THAT(tasks[0].container->mounts, IsEmpty());
}

}  // namespace
}  // namespace tfdist::agent
