#include "cli/cluster_file/host_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/file.h"
#include "base/testing/temporary_folder.h"
#include "cli/plan/plan.h"

namespace tfdist::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// "me@gpu1:4", or the mistakes.
std::vector<std::string> Read(std::string_view text) {
  Problems problems;
  std::vector<std::string> lines;
  for (const HostWords& words : ParseHostFile(text, "nodes", {}, problems)) {
    lines.push_back((words.user.empty() ? "" : words.user + "@") + words.host + ":" +
                    std::to_string(words.slots.value_or(-1)));
  }
  if (problems.empty()) return lines;
  lines.clear();
  for (const PlanProblem& problem : problems.Sorted()) lines.push_back(problem.message);
  return lines;
}

TEST(HostFile, ReadsTheFormsOfOtherTools) {
  EXPECT_THAT(Read("# Open MPI\nnode1 slots=4 max_slots=8\nme@node2\tslots=2 # two\n\nnode3\n"),
              ElementsAre("node1:4", "me@node2:2", "node3:1"));
  EXPECT_THAT(Read("node1:4\nnode2:1\n"), ElementsAre("node1:4", "node2:1"));
  EXPECT_THAT(Read("n2\nn2\nn1\nn2\nn1"), ElementsAre("n2:3", "n1:2"));
  EXPECT_THAT(Read("n1 8 all.q@n1 UNDEFINED\r\nn2 8 all.q@n2 <NULL>\r\n"),
              ElementsAre("n1:8", "n2:8"));
  EXPECT_THAT(Read("gpu[1-2] slots=2\n[fd00::7]:4\nlocalhost 3\n"),
              ElementsAre("gpu1:2", "gpu2:2", "fd00::7:4", "localhost:3"));
  EXPECT_THAT(Read("prod/h1 slots=2\nssh://me@h2:2200 4\n"), ElementsAre("prod/h1:2", "me@h2:4"));
}

TEST(HostFile, NamesTheLineOfEachMistake) {
  EXPECT_THAT(Read("n1\nn2 slot=4\n"), ElementsAre("nodes:2: 'slot=4' is not understood"));
  EXPECT_THAT(Read("n1:4 slots=4"), ElementsAre("nodes:1: says its slots twice"));
  EXPECT_THAT(Read("n1 slots=0\nn1 slots=four\nn1 slots=300"),
              ElementsAre(HasSubstr("nodes:1: 'slots=0': expected 1 to 256 slots"),
                          HasSubstr("nodes:2: 'slots=four'"), HasSubstr("nodes:3: 'slots=300'")));
  EXPECT_THAT(Read("n1 slots=4 max_slots=2"),
              ElementsAre("nodes:1: has more slots than max_slots"));
  EXPECT_THAT(Read("n1 2 3"), ElementsAre("nodes:1: '3' is not understood"));
  EXPECT_THAT(Read("a b\n"), ElementsAre(HasSubstr("nodes:1: 'b': expected 1 to 256 slots")));
  EXPECT_THAT(Read("n1 slots=200\nn1 slots=200\n"),
              ElementsAre("nodes:2: n1 has more than 256 slots"));
  EXPECT_THAT(Read("bad_\x01name\n"), ElementsAre(HasSubstr("nodes:1: ")));
  EXPECT_THAT(Read("n1 slots = 2"), ElementsAre("nodes:1: no blank may stand around ="));
  EXPECT_THAT(Read("# nobody\n"), ElementsAre("nodes names no host"));
}

class HostFileOfAPlan : public testing::Test {
 protected:
  [[nodiscard]] Plan Load(const std::string& hosts) const {
    ReplaceFile(folder_.path() / "cluster.toml",
                "name = \"job\"\n[cluster]\nhosts = " + hosts +
                    "\nlayout = \"mirrored\"\n[task]\ncommand = [\"true\"]\n",
                0600);
    return LoadPlan(folder_.path() / "cluster.toml");
  }
  [[nodiscard]] std::string Report(const std::string& hosts) const {
    try {
      (void)Load(hosts);
    } catch (const PlanErrors& errors) {
      return errors.Report();
    }
    return "";
  }

  const TemporaryFolder folder_;
};

TEST_F(HostFileOfAPlan, KeepsThePortOfAUri) {
  ReplaceFile(folder_.path() / "nodes.txt", "ssh://me@gpu2:2200 slots=2\n[fd00::7]:4\n", 0600);
  EXPECT_THAT(HostsOfFile(folder_.path() / "nodes.txt"),
              ElementsAre("ssh://me@gpu2:2200:2", "[fd00::7]:4"));
  EXPECT_EQ(Load("{ file = \"nodes.txt\" }").hosts[1].ssh_port, 2200);
}

TEST_F(HostFileOfAPlan, LiesBesideTheClusterFile) {
  ReplaceFile(folder_.path() / "nodes.txt", "gpu1 slots=2\nme@gpu2\n", 0600);
  const Plan plan = Load("{ file = \"nodes.txt\" }");
  ASSERT_EQ(plan.hosts.size(), 3U);
  EXPECT_EQ(plan.hosts[1].name, "gpu1");
  EXPECT_EQ(plan.hosts[2].ssh_user, "me");
}

TEST_F(HostFileOfAPlan, ItsMistakesAreThoseOfThePlan) {
  EXPECT_THAT(Report("{ file = \"none.txt\" }"), HasSubstr("cluster.toml:3:"));
  EXPECT_THAT(Report("{ file = \"none.txt\" }"), HasSubstr("no file"));
  EXPECT_THAT(Report("{ address = \"gpu1\" }"), HasSubstr("a list of hosts, or { file = "));
  ReplaceFile(folder_.path() / "nodes.txt", "gpu1\ngpu2 slots=x\n", 0600);
  EXPECT_THAT(Report("{ file = \"nodes.txt\" }"), HasSubstr("nodes.txt:2: 'slots=x'"));
}

}  // namespace
}  // namespace tfdist::cli
