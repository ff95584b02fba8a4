// Which tasks run in containers, and how.
#include "cli/plan/containers.h"

#include <gmock/gmock.h>

#include "cli/plan/describe.h"
#include "cli/plan/testing/test_files.h"
#include "cli/render/render.h"
#include "cli/render/settings.h"

namespace tfdist::cli {
namespace {

using protocol::EngineKind;
using protocol::Mount;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class Containers : public PlanTest {
 protected:
  // One ps and one worker, on a host each.
  Plan PlanOf(const std::string& task, const std::string& roles = "") {
    return Load(FileOf(task, roles));
  }
  static std::string FileOf(const std::string& task, const std::string& roles = "") {
    return "name = \"j\"\n[cluster]\nhosts = [\"a\", \"b\"]\nlayout = \"roles\"\n[task]\n"
           "command = [\"train\"]\n" +
           task + "\n[roles.ps]\ncount = 1\n" + roles + "\n[roles.worker]\ncount = 1\n";
  }
  static const TaskOnHost& TaskOf(const Plan& plan, const std::string& type) {
    return *std::ranges::find(plan.tasks, type, [](const auto& task) { return task.id.type; });
  }
};

TEST_F(Containers, NoTaskHasOneWithoutAnImage) {
  for (const TaskOnHost& task : PlanOf("").tasks) EXPECT_FALSE(task.container);
}

TEST_F(Containers, EachKeyReachesTheTask) {
  const Plan plan = PlanOf(
      "image = \"registry.lan/train:3\"\nengine = \"podman\"\n"
      "mounts = [\"/data/set:/data:ro\", \"/scratch:/scratch\"]\nshm_size = \"8GiB\"\n"
      "entrypoint = \"/bin/start\"\n");
  const auto container = DescribeTask(plan, TaskOf(plan, "worker")).container;
  ASSERT_TRUE(container);
  EXPECT_EQ(container->image, "registry.lan/train:3");
  EXPECT_EQ(container->engine, EngineKind::kPodman);
  EXPECT_THAT(container->mounts,
              ElementsAre(Mount{"/data/set", "/data", true}, Mount{"/scratch", "/scratch", false}));
  EXPECT_EQ(container->shm_size_bytes, int64_t{8} << 30);
  EXPECT_EQ(container->entrypoint, "/bin/start");
}

TEST_F(Containers, DataMayBeMountedElsewhereAndIsReadOnly) {
  const std::string data = "[data]\nset = { path = \"~/set\" }\n";
  const auto mounting = [&](const std::string& mount) {
    return FileOf("image = \"a\"\nmounts = [\"" + mount + "\"]\n") + data;
  };
  const Plan plan = Load(mounting("{data:set}/part:/data"));
  const auto container = DescribeTask(plan, TaskOf(plan, "worker")).container;
  EXPECT_THAT(container->mounts,
              ElementsAre(Mount{protocol::DataPath("set") + "/part", "/data", true}));
  EXPECT_EQ(DescribeHost(plan, 0).data.size(), 1U);
  EXPECT_EQ(SettingsOf(plan, TaskOf(plan, "worker")).at("mounts /data"), "~/set/part, read only");
  EXPECT_THAT(Messages(mounting("{data:other}:/data")),
              ElementsAre(HasSubstr("[data] has no such name")));
  EXPECT_THAT(Messages(mounting("{data:set}x:/data")), ElementsAre(HasSubstr("expected \"/path")));
}

TEST_F(Containers, ARoleMayHaveAnotherImageOrNone) {
  const Plan other = PlanOf("image = \"a\"", "image = \"b\"");
  EXPECT_EQ(TaskOf(other, "ps").container->image, "b");
  EXPECT_EQ(TaskOf(other, "worker").container->image, "a");
  const Plan none = PlanOf("image = \"a\"", "image = \"\"");
  EXPECT_FALSE(TaskOf(none, "ps").container);
  EXPECT_TRUE(TaskOf(none, "worker").container);
}

TEST_F(Containers, AnotherImageIsAnotherPlan) {
  EXPECT_NE(HashOf(PlanOf("image = \"a\"")), HashOf(PlanOf("image = \"b\"")));
}

TEST_F(Containers, WhatIsWrittenInTheImageItselfIsOfNoHost) {
  const Plan inside = PlanOf("image = \"a\"\ncwd = \"/workspace/src\"");
  EXPECT_THAT(inside.warnings,
              ElementsAre(HasSubstr("ps:0 starts in /workspace/src of its image")));
  EXPECT_EQ(FolderOfHost(inside, TaskOf(inside, "worker")), "");
  const Plan mounted =
      PlanOf("image = \"a\"\ncwd = \"/workspace/src\"\nmounts = [\"/data:/workspace\"]");
  EXPECT_THAT(mounted.warnings, IsEmpty());
}

TEST_F(Containers, TheSharedFolderIsSeenInside) {
  const Plan plan = PlanOf("image = \"a\"\nshared = \"/srv/out\"");
  EXPECT_THAT(plan.tasks.front().container->mounts,
              ElementsAre(Mount{"/srv/out", "/srv/out", false}));
}

TEST_F(Containers, WhatWouldNotReachTheTaskIsAMistake) {
  EXPECT_THAT(Messages(FileOf("image = \"a\"\nvenv = \"~/venv\"")),
              ElementsAre(HasSubstr("the task has an image")));
  EXPECT_THAT(Messages(FileOf("shm_size = \"1GiB\"")),
              ElementsAre(HasSubstr("no task has an image")));
}

TEST_F(Containers, OfSifFilesAreApptainers) {
  const auto engine_of = [&](const std::string& task) {
    return PlanOf(task).tasks.front().container->engine;
  };
  EXPECT_EQ(engine_of("image = \"/images/train.sif\""), protocol::EngineKind::kApptainer);
  EXPECT_EQ(engine_of("image = \"train:3\""), protocol::EngineKind::kAuto);
}

TEST_F(Containers, MistakesNameWhatIsExpected) {
  EXPECT_THAT(Messages(FileOf("image = \"-v /:/host\"")),
              ElementsAre(HasSubstr("no name of an image")));
  for (const char* image : {"{}", "{ archive = \"a.tar\", local = \"b\" }", "{ name = \"a\" }",
                            "{ local = \"a\", name = \"b\" }"}) {
    EXPECT_THAT(Messages(FileOf(std::string("image = ") + image)),
                ElementsAre(HasSubstr("expected an archive of this machine")));
  }
  EXPECT_THAT(Messages(FileOf("image = { archive = \"absent.tar\" }")),
              ElementsAre(HasSubstr("there is no file")));
  EXPECT_THAT(Messages(FileOf("image = { local = \"a b\" }")),
              ElementsAre(HasSubstr("no name of an image")));
  EXPECT_THAT(Messages(FileOf("image = \"a\"\nengine = \"lxc\"")),
              ElementsAre(HasSubstr("\"auto\", \"docker\", \"podman\" or \"apptainer\"")));
  for (const char* mount : {"/data", "data:/data", "/data:data", "/data:/data:rx", "/a,b:/c"}) {
    EXPECT_THAT(Messages(FileOf(std::string("image = \"a\"\nmounts = [\"") + mount + "\"]")),
                ElementsAre(HasSubstr("/path/on/the/host:/path/in/the/container")))
        << mount;
  }
}

TEST_F(Containers, DescribeSaysWhatTheFileSays) {
  const Plan plan =
      PlanOf("image = \"a:1\"\nmounts = [\"/data/set:/data:ro\"]\nshm_size = \"8GiB\"");
  const Settings settings = SettingsOf(plan, TaskOf(plan, "worker"));
  EXPECT_EQ(settings.at("image"), "a:1");
  EXPECT_EQ(settings.at("engine"), "auto");
  EXPECT_EQ(settings.at("shm_size"), "8GiB");
  EXPECT_EQ(settings.at("mounts /data"), "/data/set, read only");
}

TEST_F(Containers, RenderNamesTheImageOfEachTask) {
  EXPECT_THAT(RenderTable(PlanOf("image = \"a:1\""), 0),
              HasSubstr("image: a:1 (auto): ps:0 worker:0\n"));
  EXPECT_THAT(RenderJson(PlanOf("image = \"a:1\"")), HasSubstr("\"image\": \"a:1\""));
}

}  // namespace
}  // namespace tfdist::cli
