// What hosts are told, for jobs of the largest size.
#include "cli/plan/describe.h"

#include <gmock/gmock.h>

#include "cli/plan/testing/test_files.h"
#include "wire/frame.h"

namespace tfdist::cli {
namespace {

using protocol::Message;
using testing::ElementsAre;

class Describe : public PlanTest {};

// As a host reads it.
Message SentAndRead(const Message& message) {
  protocol::FrameReader reader;
  reader.Feed(protocol::Frame(message));
  return reader.Next().value();
}

TEST_F(Describe, ASpareOfFourThousandHostsCanBeToldAllTasks) {
  const Plan plan = LoadCluster(
      "layout = \"mirrored\"\n"
      "hosts = [\"10.0.[0-14].[0-255]\", \"10.0.15.[0-247]\", { address = \"10.1.0.[1-8]\", spare "
      "= true }]\n"
      "[roles.worker]\ncommand = [\"train\", \"--workers={worker_hosts}\"]");
  const int spare = 4095;
  ASSERT_TRUE(plan.hosts.at(spare).spare);
  const Message read = SentAndRead({"describe", 1, DescribeHost(plan, spare)});
  const auto told = protocol::Body<protocol::HostDescription>(read);
  EXPECT_EQ(told.tasks.size(), 4088U);
  (void)SentAndRead({"commit", 1, DescribeJob(plan, "big-1")});
}

TEST_F(Describe, AHostIsToldTheCommonTextsThatItsTasksName) {
  const Plan plan =
      LoadCluster("hosts = [\"h[1-2]\"]\n[roles.ps]\nenv = { A = \"{worker_hosts}\" }");
  const auto told = DescribeHost(plan, 0);
  std::vector<std::string> names;
  for (const auto& [name, text] : told.common) names.push_back(name);
  EXPECT_THAT(names, ElementsAre("cluster", "worker_hosts"));
}

TEST_F(Describe, ASpareHostHasItsOwnVariables) {
  const Plan plan = LoadCluster(
      "hosts = [{ address = \"h1\", env = { NIC = \"eth0\" } }, { address = \"h2\", spare = true, "
      "env = { NIC = \"ib0\" } }]");
  for (const auto& [slot, nic] : {std::pair(0, "eth0"), std::pair(1, "ib0")}) {
    for (const auto& task : DescribeHost(plan, slot).tasks) {
      EXPECT_THAT(task.env, testing::Contains(testing::Pair("NIC", protocol::Text(nic))));
    }
  }
}

TEST_F(Describe, TheFirstSlotOfEachMachineIsToldThatItIs) {
  const Plan plan = LoadCluster(
      "layout = \"mirrored\"\n"
      "hosts = [{ address = \"h1\", slots = 2 }, \"h2\", { address = \"h3\", spare = true }]\n"
      "[roles.worker]\ncommand = [\"c\"]");
  std::vector<bool> first;
  for (size_t slot = 0; slot < plan.hosts.size(); ++slot)
    first.push_back(DescribeHost(plan, static_cast<int>(slot)).first_of_machine);
  EXPECT_THAT(first, ElementsAre(true, false, true, true));
}

}  // namespace
}  // namespace tfdist::cli
