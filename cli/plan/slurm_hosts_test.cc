#include "cli/cluster_file/slurm_hosts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

namespace tfdist::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kVariables[] = {"SLURM_JOB_ID", "SLURM_JOB_NODELIST", "SLURM_TASKS_PER_NODE",
                                      "SLURM_NTASKS", "SLURM_NTASKS_PER_NODE"};

// "gpu1:4", or the mistakes. No other variable of Slurm's is set.
std::vector<std::string> ReadSlurm(const std::map<std::string, std::string>& variables) {
  for (const char* name : kVariables) {
    const auto value = variables.find(name);
    // NOLINTBEGIN(concurrency-mt-unsafe): one thread
    value == variables.end() ? unsetenv(name) : setenv(name, value->second.c_str(), 1);
    // NOLINTEND(concurrency-mt-unsafe)
  }
  Problems problems;
  std::vector<std::string> lines;
  if (const auto hosts = ReadSlurmHosts({}, problems)) {
    for (const HostEntry& host : *hosts) {
      lines.push_back(host.address + ":" + std::to_string(host.slots));
      EXPECT_EQ(host.slurm_job, "7");
    }
  }
  for (const PlanProblem& problem : problems.Sorted()) lines.push_back(problem.message);
  return lines;
}

TEST(SlurmHosts, AreTheNodesWithTheTasksThatWereAskedFor) {
  EXPECT_THAT(ReadSlurm({{"SLURM_JOB_ID", "7"},
                         {"SLURM_JOB_NODELIST", "gpu[01-03],login,rack[1-2]n[5,7]"},
                         {"SLURM_NTASKS", "14"},
                         {"SLURM_TASKS_PER_NODE", "2(x3),1,3,1(x2),2"}}),
              ElementsAre("gpu01:2", "gpu02:2", "gpu03:2", "login:1", "rack1n5:3", "rack1n7:1",
                          "rack2n5:1", "rack2n7:2"));
}

TEST(SlurmHosts, HaveOneSlotWhereNobodyAskedForTasks) {
  EXPECT_THAT(ReadSlurm({{"SLURM_JOB_ID", "7"},
                         {"SLURM_JOB_NODELIST", "n[1-2]"},
                         {"SLURM_TASKS_PER_NODE", "64(x2)"}}),
              ElementsAre("n1:1", "n2:1"));
}

TEST(SlurmHosts, AreNoneOutsideOfAnAllocation) {
  EXPECT_THAT(ReadSlurm({}), ElementsAre(HasSubstr("SLURM_JOB_ID is not set")));
  EXPECT_THAT(ReadSlurm({{"SLURM_JOB_ID", "7;x"}, {"SLURM_JOB_NODELIST", "n1"}}),
              ElementsAre(HasSubstr("SLURM_JOB_ID is not set")));
  EXPECT_THAT(ReadSlurm({{"SLURM_JOB_ID", "7"}}),
              ElementsAre(HasSubstr("SLURM_JOB_NODELIST is not set")));
}

TEST(SlurmHosts, RefuseNumbersThatDoNotFitTheNodes) {
  for (const char* tasks : {"2", "2(x3)", "0(x2)", "2(x2", "2(xx2)", "a,b", "2(x99999999999)"}) {
    EXPECT_THAT(ReadSlurm({{"SLURM_JOB_ID", "7"},
                           {"SLURM_JOB_NODELIST", "n[1-2]"},
                           {"SLURM_NTASKS", "4"},
                           {"SLURM_TASKS_PER_NODE", tasks}}),
                ElementsAre(HasSubstr("SLURM_TASKS_PER_NODE is")))
        << tasks;
  }
}

}  // namespace
}  // namespace tfdist::cli
