#include <gmock/gmock.h>

#include "cli/plan/testing/test_files.h"

namespace tfdist::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Ports : public PlanTest {};

TEST_F(Ports, FurtherTasksCountUpPastOtherRolesBases) {
  const Plan plan = LoadCluster(R"(hosts = ["h1"]
layout = "roles"
ports = { ps = 2223, worker = 2222 }
[roles.ps]
per_host = 2
[roles.worker]
per_host = 3
)");
  EXPECT_THAT(Places(plan), ElementsAre("ps:0@h1:2223", "ps:1@h1:2224", "worker:0@h1:2222",
                                        "worker:1@h1:2225", "worker:2@h1:2226"));
}

TEST_F(Ports, ListsAreGivenOutOneByOneOnEachMachine) {
  const Plan plan = LoadCluster(R"(hosts = ["h[1-2]"]
layout = "roles"
ports = { worker = [20000, 20001] }
[roles.worker]
per_host = 2
)");
  EXPECT_THAT(Places(plan), ElementsAre("worker:0@h1:20000", "worker:1@h1:20001",
                                        "worker:2@h2:20000", "worker:3@h2:20001"));
}

TEST_F(Ports, CountingPassesListedNumbers) {
  const Plan plan = LoadCluster(R"(hosts = ["h1"]
layout = "roles"
ports = { ps = [2223, 2225], worker = 2222 }
[roles.ps]
per_host = 2
[roles.worker]
per_host = 3
)");
  EXPECT_EQ(plan.cluster.tasks.at("worker"),
            (std::vector<std::string>{"h1:2222", "h1:2224", "h1:2226"}));
}

TEST_F(Ports, AnyAreOfTheNameAndDifferOnOneMachine) {
  const auto ports_of = [this](const std::string& name, const std::string& ports) {
    std::vector<int> found;
    const Plan plan = Load("name = \"" + name + R"("
[task]
command = ["a"]
[cluster]
hosts = ["h1"]
layout = "roles"
)" + ports + R"(
[roles.ps]
per_host = 2
[roles.worker]
per_host = 2
)");
    for (const TaskOnHost& task : plan.tasks) found.push_back(task.port);
    return found;
  };
  const auto first = ports_of("first", "ports = \"auto\"");
  EXPECT_GE(first[0], 10'000);
  EXPECT_LT(first[0], 30'000);
  EXPECT_EQ(first, (std::vector<int>{first[0], first[0] + 1, first[0] + 2, first[0] + 3}));
  EXPECT_EQ(ports_of("first", "ports = \"auto\""), first);
  EXPECT_NE(ports_of("second", "ports = \"auto\""), first);
  EXPECT_EQ(ports_of("first", "ports = { ps = \"auto\" }"),
            (std::vector<int>{first[0], first[0] + 1, 2222, 2223}));
}

TEST_F(Ports, AListThatIsTooShortIsAnError) {
  EXPECT_THAT(
      ClusterMessages("hosts = [\"h1\"]\nports = { worker = [1, 2] }\nlayout = "
                      "\"roles\"\n[roles.worker]\nper_host = 3"),
      ElementsAre("cluster.ports.worker: the list is too short: 3 tasks on h1 need a port each"));
}

// Used to end in std::out_of_range: a task without a port before one that has one.
TEST_F(Ports, AListThatIsTooShortOnOneMachineAloneIsAnError) {
  EXPECT_THAT(
      ClusterMessages("hosts = [\"h[1-2]\"]\nports = { worker = [9] }\nlayout = "
                      "\"roles\"\n[roles.worker]\ncount = 3"),
      ElementsAre("cluster.ports.worker: the list is too short: 2 tasks on h1 need a port each"));
}

TEST_F(Ports, TwoRolesWithOneBaseOnOneMachineAreOneError) {
  EXPECT_THAT(ClusterMessages("hosts = [\"h[1-4]\"]\nports = { worker = 2222, ps = 2222 }"),
              ElementsAre("cluster.ports.worker: port 2222 of h1 would go to both ps and worker"));
}

TEST_F(Ports, TheSameBaseOnDifferentMachinesIsFine) {
  const Plan plan = LoadCluster(R"(layout = "roles"
ports = { ps = 2222, worker = 2222 }
[roles.ps]
hosts = ["h1"]
[roles.worker]
hosts = ["h2"]
)");
  EXPECT_THAT(Places(plan), ElementsAre("ps:0@h1:2222", "worker:0@h2:2222"));
}

TEST_F(Ports, LoopbackAddressesAreOneMachine) {
  const Plan plan = LoadCluster("hosts = [\"127.0.0.[1-2]\"]");
  EXPECT_THAT(Places(plan), ElementsAre("ps:0@127.0.0.1:2223", "master:0@127.0.0.1:2222",
                                        "ps:1@127.0.0.2:2224", "worker:0@127.0.0.2:2225"));
}

TEST_F(Ports, LoopbackAddressesWithSshNamesAreTakenAsWritten) {
  const Plan plan = LoadCluster("hosts = [{ address = \"127.0.0.[1-2]\", ssh = \"box[1-2]\" }]");
  EXPECT_THAT(Places(plan), ElementsAre("ps:0@127.0.0.1:2223", "master:0@127.0.0.1:2222",
                                        "ps:1@127.0.0.2:2223", "worker:0@127.0.0.2:2222"));
}

TEST_F(Ports, AllLocalHostsAreThisMachine) {
  const Plan plan = LoadCluster(R"(hosts = [
  { address = "10.0.0.1", transport = "local" },
  { address = "10.0.0.2", transport = "local" }])");
  EXPECT_EQ(plan.cluster.tasks.at("worker"), (std::vector<std::string>{"10.0.0.2:2225"}));
}

TEST_F(Ports, ARolesOwnPortsComeBeforeTheClusters) {
  const Plan plan =
      LoadCluster("hosts = [\"h1\"]\nports = { ps = 3000 }\n[roles.ps]\nports = 4000");
  EXPECT_EQ(TaskNamed(plan, "ps:0").port, 4000);
}

TEST_F(Ports, AChiefMayHaveAPortOfItsOwn) {
  const Plan plan = LoadCluster("hosts = [\"h1\"]\nports = { master = 5000 }");
  EXPECT_EQ(TaskNamed(plan, "master:0").port, 5000);
}

TEST_F(Ports, OfWhichNobodySpeaksCountUpOverAllRoles) {
  const Plan plan = LoadCluster(R"(hosts = ["h1"]
layout = "roles"
[roles.scheduler]
per_host = 1
[roles.client]
per_host = 1
[roles.worker]
per_host = 2
)");
  EXPECT_EQ(TaskNamed(plan, "worker:0").port, 2222);
  EXPECT_EQ(TaskNamed(plan, "client:0").port, 2223);
  EXPECT_EQ(TaskNamed(plan, "scheduler:0").port, 2224);
  EXPECT_EQ(TaskNamed(plan, "worker:1").port, 2225);
}

TEST_F(Ports, CountingUpEndsWhereNumbersEnd) {
  EXPECT_THAT(ClusterMessages("hosts = [\"h1\"]\nlayout = \"roles\"\nports = { worker = 65535 "
                              "}\n[roles.worker]\nper_host = 2"),
              ElementsAre("cluster.ports.worker: 2 tasks on h1 count up past port 65535"));
}

TEST_F(Ports, TheCoordinatorsPortIsTakenOnItsMachine) {
  const Plan plan = LoadCluster("hosts = [\"h[1-2]\"]\n[control]\nport = 2223");
  EXPECT_EQ(TaskNamed(plan, "ps:0").port, 2224);
  EXPECT_EQ(TaskNamed(plan, "ps:1").port, 2223);
  EXPECT_THAT(
      ClusterMessages("hosts = [\"h[1-2]\"]\nports = { ps = 2223 }\n[control]\nport = 2223"),
      ElementsAre(HasSubstr("port 2223 of h1 would go to both the coordinator and ps")));
}

}  // namespace
}  // namespace tfdist::cli
