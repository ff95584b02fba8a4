#include <gmock/gmock.h>

#include "cli/plan/testing/test_files.h"

namespace tfdist::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class GpusOf : public PlanTest {
 protected:
  // A job of workers and one parameter server on h1; `host` is its entry, `role` what
  // [roles.worker] says.
  static std::string File(const std::string& host, const std::string& role) {
    return "name = \"n\"\n[task]\ncommand = [\"a\"]\n[cluster]\nlayout = \"roles\"\nhosts = [" +
           host + "]\n[roles.ps]\ncount = 1\n[roles.worker]\n" + role;
  }
  Plan LoadPlanOf(const std::string& cluster) const {
    return Load("name = \"n\"\n[task]\ncommand = [\"a\"]\n[cluster]\n" + cluster);
  }
  std::string Visible(const std::string& host, const std::string& role,
                      const std::string& task) const {
    return EnvOf(Load(File(host, role)), task, "CUDA_VISIBLE_DEVICES");
  }
};

TEST_F(GpusOf, TheOnlyGpuTaskOfAHostSeesAll) {
  EXPECT_EQ(Visible("\"h1\"", "count = 1", "worker:0"), "(unset)");
  EXPECT_EQ(Load(File("\"h1\"", "count = 1")).tasks.at(1).gpus, std::nullopt);
}

TEST_F(GpusOf, AParameterServerSeesNone) {
  EXPECT_EQ(Visible("\"h1\"", "count = 1", "ps:0"), "");
  EXPECT_EQ(Visible("{ address = \"h1\", gpus = [0] }", "count = 1\ngpus = 1", "ps:0"), "");
}

TEST_F(GpusOf, AutoStaysWithinTheHostsList) {
  EXPECT_EQ(Visible("{ address = \"h1\", gpus = [2, 3] }", "count = 1", "worker:0"), "2,3");
}

TEST_F(GpusOf, NTakesFromTheHostsList) {
  const std::string host = "{ address = \"h1\", gpus = [4, 5, 6, 7] }";
  EXPECT_EQ(Visible(host, "per_host = 2\ngpus = 2", "worker:0"), "4,5");
  EXPECT_EQ(Visible(host, "per_host = 2\ngpus = 2", "worker:1"), "6,7");
  EXPECT_EQ(Visible("\"h1\"", "count = 1\ngpus = 2", "worker:0"), "0,1");
}

TEST_F(GpusOf, SlotsShareTheListOfTheirMachine) {
  const std::string host = "{ address = \"h1\", gpus = [0, 1], slots = 2 }";
  EXPECT_EQ(Visible(host, "per_host = 1\ngpus = 1", "worker:1"), "1");
}

TEST_F(GpusOf, AListIsTakenAsItIs) {
  EXPECT_EQ(Visible("\"h1\"", "count = 1\ngpus = [3, 1]", "worker:0"), "3,1");
}

TEST_F(GpusOf, UuidsAreAsGoodAsNumbers) {
  const std::string host = "{ address = \"h1\", gpus = [\"GPU-6d2b\", \"MIG-e3b2\"] }";
  EXPECT_EQ(Visible(host, "per_host = 2\ngpus = 1", "worker:1"), "MIG-e3b2");
  EXPECT_EQ(Visible(host, "per_host = 2", "worker:0"), "GPU-6d2b");
  EXPECT_EQ(Visible("\"h1\"", "count = 1\ngpus = [\"GPU-6d2b\"]", "worker:0"), "GPU-6d2b");
  EXPECT_THAT(
      Messages(File("\"h1\"", "count = 1\ngpus = [\"H100\"]")).front(),
      HasSubstr("expected what nvidia-smi -L calls it (\"GPU-...\", \"MIG-...\"), or a whole "
                "number from 0 to 1023, got text"));
}

TEST_F(GpusOf, AllHostsHaveTheListOfTheCluster) {
  const Plan plan = LoadPlanOf(
      "layout = \"mirrored\"\ngpus = [0, 0]\nhosts = [{ address = \"h1\", slots = 2 }, { address = "
      "\"h2\", gpus = [3] }]");
  EXPECT_EQ(EnvOf(plan, "worker:1", "CUDA_VISIBLE_DEVICES"), "0");
  EXPECT_EQ(EnvOf(plan, "worker:2", "CUDA_VISIBLE_DEVICES"), "3");
}

TEST_F(GpusOf, SharingIsSaidByListingAGpuTwice) {
  const std::string host = "{ address = \"h1\", gpus = [0, 0] }";
  EXPECT_EQ(Visible(host, "per_host = 2\ngpus = 1", "worker:0"), "0");
  EXPECT_EQ(Visible(host, "per_host = 2\ngpus = 1", "worker:1"), "0");
}

TEST_F(GpusOf, WhatDoesNotWorkOutIsAnErrorOfThePlan) {
  const auto message = [&](const std::string& host, const std::string& role) {
    const auto messages = Messages(File(host, role));
    return messages.size() == 1 ? messages.front() : testing::PrintToString(messages);
  };
  EXPECT_THAT(message("{ address = \"h1\", gpus = [0, 1] }", "per_host = 3"),
              HasSubstr("3 tasks on h1 are to share its GPUs, and it lists 2"));
  EXPECT_THAT(message("\"h1\"", "per_host = 1\n[roles.chief]\ngpus = [0]\ncount = 1"),
              HasSubstr("not all say \"auto\""));
  EXPECT_THAT(message("\"h1\"", "per_host = 2\ngpus = 1"), HasSubstr("the host lists none"));
  EXPECT_THAT(message("{ address = \"h1\", gpus = [0, 1] }", "per_host = 2\ngpus = 2"),
              HasSubstr("2 GPUs for each task, but h1 has not enough of them: it lists 2"));
  EXPECT_THAT(message("\"h1\"", "per_host = 2\ngpus = [0]"),
              HasSubstr("GPU 0 of h1 would go to two tasks"));
  EXPECT_THAT(message("{ address = \"h1\", gpus = [0] }", "count = 1\ngpus = [1]"),
              HasSubstr("h1 does not list GPU 1"));
  EXPECT_THAT(message("\"h1\"", "count = 1\ngpus = [1, 1]"), HasSubstr("GPU 1 stands here twice"));
  EXPECT_THAT(message("\"h1\"", "count = 1\ngpus = \"all\""), HasSubstr("expected \"auto\""));
}

TEST_F(GpusOf, SeveralTasksDivideTheHostsListEvenly) {
  const std::string host = "{ address = \"h1\", gpus = [3, 2, 1, 0, 4] }";
  EXPECT_EQ(Visible(host, "per_host = 2", "worker:0"), "3,2");
  EXPECT_EQ(Visible(host, "per_host = 2", "worker:1"), "1,0");
  EXPECT_EQ(Visible("{ address = \"h1\", gpus = [] }", "per_host = 2", "worker:1"), "");
  EXPECT_EQ(Visible("{ address = \"h1\", gpus = [0, 0] }", "per_host = 2", "worker:1"), "0");
}

TEST_F(GpusOf, SeveralTasksOfAHostThatListsNoneAreDecidedThere) {
  const Plan plan = Load(File("\"h1\", \"h2\"",
                              "hosts = [\"h1\"]\nper_host = 2\n[roles.chief]\ncount = 1\n"
                              "hosts = [\"h2\"]"));
  const TaskOnHost& last = TaskNamed(plan, "worker:1");
  EXPECT_EQ(last.gpus, std::nullopt);
  EXPECT_EQ(last.gpu_share, (protocol::GpuShare{1, 2}));
  EXPECT_EQ(EnvOf(plan, "worker:1", "CUDA_VISIBLE_DEVICES"), "(unset)");
  EXPECT_EQ(TaskNamed(plan, "ps:0").gpu_share, std::nullopt);
  // The only one of its machine sees all.
  EXPECT_EQ(TaskNamed(plan, "chief:0").gpu_share, std::nullopt);
}

// Two slots of a machine are two agents: each is told which part is its own.
TEST_F(GpusOf, SlotsOfThisMachineShareWhatItHas) {
  const Plan plan =
      LoadPlanOf("hosts = [{ address = \"127.0.0.1\", transport = \"local\", slots = 2 }]");
  EXPECT_EQ(TaskNamed(plan, "master:0").gpu_share, (protocol::GpuShare{0, 2}));
  EXPECT_EQ(TaskNamed(plan, "worker:0").gpu_share, (protocol::GpuShare{1, 2}));
}

TEST_F(GpusOf, TwoLocalTrainersWithoutGpusSayGpusZero) {
  const Plan plan =
      LoadCluster("hosts = [{ address = \"127.0.0.1\", transport = \"local\", slots = 2 }]");
  EXPECT_EQ(EnvOf(plan, "worker:0", "CUDA_VISIBLE_DEVICES"), "");
}

}  // namespace
}  // namespace tfdist::cli
