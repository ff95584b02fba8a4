#include "cli/plan/runtime_choice.h"

#include <gmock/gmock.h>

#include "cli/plan/describe.h"
#include "cli/plan/testing/test_files.h"
#include "cli/render/render.h"

namespace tfdist::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class RuntimeChoice : public PlanTest {
 protected:
  [[nodiscard]] Plan Choose(const std::string& cluster, bool has_cuda,
                            const std::string& command = "\"{runtime}\"") const {
    Plan plan = Load("name = \"n\"\n[cluster]\n" + cluster + "\n[task]\ncommand = [" + command +
                     ", \"--steps\", \"9\"]");
    ChooseRuntimes(plan, has_cuda);
    return plan;
  }
  static std::string ProgramOf(const Plan& plan, const std::string& task) {
    return ArgvOf(plan, task)[0];
  }
};

const std::string kCpu{protocol::kRuntimePath};
const std::string kCuda{kCudaRuntimePath};
constexpr const char* kHostsThatListGpus =
    "hosts = [{ address = \"h1\", gpus = [0] }, { address = \"h2\", gpus = [0, 1] }]";

TEST_F(RuntimeChoice, TasksThatMaySeeAGpuHaveTheCudaRuntimeAndServersHaveNot) {
  for (const char* hosts : {kHostsThatListGpus, "hosts = [\"h1\", \"h2\"]"}) {
    const Plan plan = Choose(hosts, true);
    EXPECT_EQ(ProgramOf(plan, "master:0"), kCuda);
    EXPECT_EQ(ProgramOf(plan, "worker:0"), kCuda);
    EXPECT_EQ(ProgramOf(plan, "ps:0"), kCpu);
    EXPECT_EQ(ProgramOf(plan, "ps:1"), kCpu);
    EXPECT_TRUE(plan.needs_runtime);
    EXPECT_TRUE(plan.needs_cuda_runtime);
    EXPECT_THAT(plan.warnings, IsEmpty());
    EXPECT_THAT(RenderTable(plan), HasSubstr("<jobdir>/runtime-cuda --steps"));
  }
}

TEST_F(RuntimeChoice, TasksWhoseGpusTheHostDividesHaveTheCudaRuntime) {
  const Plan plan = Choose("hosts = [\"h1\", \"h2\"]\n[roles.worker]\nper_host = 2", true);
  ASSERT_TRUE(TaskNamed(plan, "worker:1").gpu_share);
  EXPECT_EQ(ProgramOf(plan, "worker:1"), kCuda);
}

TEST_F(RuntimeChoice, TasksWithoutGpusHaveTheOneForTheCpu) {
  const Plan plan = Choose("hosts = [\"h1\"]\n[roles.worker]\ngpus = 0", true);
  EXPECT_EQ(ProgramOf(plan, "master:0"), kCpu);
  EXPECT_FALSE(plan.needs_cuda_runtime);
  EXPECT_TRUE(plan.needs_runtime);
}

TEST_F(RuntimeChoice, WithoutACudaRuntimeThePlanSaysWhoseGpusStayIdle) {
  const Plan plan = Choose(kHostsThatListGpus, false);
  EXPECT_EQ(ProgramOf(plan, "worker:0"), kCpu);
  EXPECT_FALSE(plan.needs_cuda_runtime);
  EXPECT_THAT(plan.warnings,
              ElementsAre(HasSubstr("the GPUs of master:0, worker:0 stay idle: there is no "
                                    "tfdist-runtime-cuda beside this tfdist")));
}

TEST_F(RuntimeChoice, NothingIsSaidOfGpusThatThePlanDoesNotName) {
  EXPECT_THAT(Choose("hosts = [\"h1\", \"h2\"]", false).warnings, IsEmpty());
  const std::string cluster = std::string(kHostsThatListGpus) + "\nlayout = \"uai\"";
  EXPECT_THAT(Choose(cluster, false, "\"train.py\"").warnings, IsEmpty());
}

TEST_F(RuntimeChoice, AJobWithoutTheRuntimeNeedsNone) {
  const Plan plan = Choose(kHostsThatListGpus, true, "\"train.py\"");
  EXPECT_FALSE(plan.needs_runtime);
  EXPECT_FALSE(plan.needs_cuda_runtime);
}

TEST_F(RuntimeChoice, AHostGetsTheExecutablesThatItsOwnTasksName) {
  const Plan plan = Choose("hosts = [\"h1\", \"h2\"]", true);
  const auto used = [&](const std::string& name) {
    return RuntimesOf({DescribeTask(plan, TaskNamed(plan, name))});
  };
  EXPECT_TRUE(used("ps:1").cpu);
  EXPECT_FALSE(used("ps:1").cuda);
  EXPECT_TRUE(used("worker:0").cuda);
  EXPECT_FALSE(used("worker:0").cpu);
}

}  // namespace
}  // namespace tfdist::cli
