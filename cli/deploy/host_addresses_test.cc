#include "cli/deploy/host_addresses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tfdist::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Known {
  std::string name;
  std::vector<std::string> addresses;
};

// Two hosts with a task each: gpu1 has 10.0.0.1 and gpu2 has 10.0.0.2.
class HostAddressesTest : public testing::Test {
 protected:
  void Add(const std::string& name, const std::string& host_name, const std::string& own,
           const std::vector<Known>& known) {
    HostPlan host;
    host.name = host.address = host.ssh = name;
    host.host_name = host_name;
    TaskOnHost task;
    task.slot = static_cast<int>(plan_.hosts.size());
    task.port = 2222;
    plan_.hosts.push_back(host);
    plan_.tasks.push_back(task);
    plan_.needs_ports = true;
    protocol::ResolvedNames answer;
    for (const Known& one : known)
      answer.names.push_back({one.name, one.addresses, "cannot resolve it: no"});
    answer.own = {"127.0.0.1", own};
    answers_.emplace_back(std::move(answer));
  }
  [[nodiscard]] std::vector<HostAddress> Chosen() const { return ChooseAddresses(plan_, answers_); }
  [[nodiscard]] std::vector<std::string> Addresses() const {
    std::vector<std::string> addresses;
    for (const HostAddress& one : Chosen()) addresses.push_back(one.address);
    return addresses;
  }

  Plan plan_;
  std::vector<std::optional<protocol::ResolvedNames>> answers_;
};

TEST_F(HostAddressesTest, ANameThatAllResolveStays) {
  Add("gpu1", "34.0.0.1", "10.0.0.1", {{"gpu1", {"10.0.0.1"}}, {"gpu2", {"10.0.0.2"}}});
  Add("gpu2", "34.0.0.2", "10.0.0.2", {{"gpu1", {"10.0.0.1"}}, {"gpu2", {"127.0.1.1"}}});
  EXPECT_THAT(Addresses(), ElementsAre("gpu1", "gpu2"));
  EXPECT_EQ(AddressesText(plan_.hosts, Chosen()), "");
}

TEST_F(HostAddressesTest, AHostNameIsTakenWhereOneHostDoesNotKnowTheName) {
  Add("gpu1", "10.0.0.1", "10.0.0.1", {{"gpu1", {"10.0.0.1"}}, {"gpu2", {}}});
  Add("gpu2", "10.0.0.2", "10.0.0.2", {{"gpu1", {}}, {"gpu2", {"10.0.0.2"}}});
  EXPECT_THAT(Addresses(), ElementsAre("10.0.0.1", "10.0.0.2"));
  EXPECT_EQ(AddressesText(plan_.hosts, Chosen()),
            "gpu1 is 10.0.0.1, and gpu2 is 10.0.0.2 for the other hosts (HostName in ssh's "
            "configuration)");
}

TEST_F(HostAddressesTest, ATranslatedAddressIsTakenWithAWarning) {
  Add("gpu1", "34.0.0.1", "10.0.0.1", {{"gpu1", {}}, {"10.0.0.2", {}}});
  Add("10.0.0.2", "", "10.0.0.2", {{"gpu1", {}}});
  const auto chosen = Chosen();
  EXPECT_EQ(chosen[0].address, "34.0.0.1");
  EXPECT_FALSE(chosen[0].trouble);
  ASSERT_TRUE(chosen[0].warning);
  EXPECT_THAT(chosen[0].warning->text, HasSubstr("gpu1 is 34.0.0.1 for the other hosts"));
  EXPECT_THAT(chosen[0].warning->remedy, HasSubstr("{ address = \"10.0.0.1\", ssh = \"gpu1\" }"));
}

TEST_F(HostAddressesTest, ANumberMayBeAnAliasAsWell) {
  Add("10.9", "10.0.0.1", "10.0.0.1", {{"10.9", {"10.0.0.9"}}});
  Add("10.0.0.8", "10.0.0.2", "10.0.0.2", {{"10.9", {"10.0.0.9"}}});
  EXPECT_THAT(Addresses(), ElementsAre("10.0.0.1", "10.0.0.2"));
}

TEST_F(HostAddressesTest, NoNameThatAnotherHostKnowsIsTroubleWhereTasksListen) {
  Add("gpu1", "10.0.0.1", "10.0.0.1", {{"gpu1", {}}, {"gpu2", {}}, {"deep2", {}}});
  Add("gpu2", "deep2", "10.0.0.2", {{"gpu1", {}}, {"gpu2", {}}, {"deep2", {"10.0.0.2"}}});
  ASSERT_TRUE(Chosen()[1].trouble);
  EXPECT_EQ(Chosen()[1].trouble->why,
            "the other hosts cannot resolve gpu2 (gpu1: no), nor its HostName deep2");
  EXPECT_THAT(Chosen()[1].trouble->remedy, HasSubstr("{ address = \"10.0.0.2\", ssh = \"gpu2\" }"));
  plan_.tasks[1].port = 0;
  EXPECT_FALSE(Chosen()[1].trouble);
  // The agents are to reach the first host.
  plan_.needs_ports = false;
  plan_.hosts[0].host_name = "127.0.0.1";
  EXPECT_TRUE(Chosen()[0].trouble);
}

TEST_F(HostAddressesTest, ASingleMachineThatDoesNotKnowItsNameReachesItselfByLoopback) {
  Add("gpu1", "10.0.0.1", "10.0.0.1", {{"gpu1", {}}});
  plan_.hosts.push_back(plan_.hosts[0]);
  answers_.emplace_back();
  EXPECT_TRUE(HasAliases(plan_.hosts));
  EXPECT_FALSE(Chosen()[0].trouble);
  EXPECT_THAT(Addresses(), ElementsAre("127.0.0.1", "127.0.0.1"));
  EXPECT_EQ(AddressesText(plan_.hosts, Chosen()), "");
  EXPECT_THAT(WarningsOf(plan_, Chosen(), answers_), testing::IsEmpty());
  answers_[0]->names[0].addresses = {"127.0.1.1"};
  EXPECT_THAT(Addresses(), ElementsAre("gpu1", "gpu1"));
}

}  // namespace
}  // namespace tfdist::cli
