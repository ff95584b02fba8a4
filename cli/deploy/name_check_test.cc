#include "cli/deploy/name_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tfdist::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

using Answers = std::vector<std::optional<protocol::ResolvedNames>>;

std::vector<HostPlan> HostsNamed(const std::vector<std::string>& names) {
  std::vector<HostPlan> hosts;
  for (const std::string& name : names) {
    HostPlan host;
    host.name = host.address = name;
    hosts.push_back(host);
  }
  return hosts;
}

// What a host with these interfaces says of a, b, ...
protocol::ResolvedNames Answer(std::vector<std::string> own,
                               const std::vector<std::vector<std::string>>& addresses) {
  protocol::ResolvedNames answer;
  char name = 'a';
  for (const auto& list : addresses) answer.names.push_back({std::string(1, name++), list, ""});
  answer.own = std::move(own);
  return answer;
}

TEST(NameCheck, AsksEachHostForItsOwnNameSlotZerosAndThoseOfItsNeighbours) {
  EXPECT_THAT(NamesToAsk(HostsNamed({"a", "b", "c"}), 1), ElementsAre("b", "a", "c"));
  EXPECT_THAT(NamesToAsk(HostsNamed({"10.0.0.1", "b", "fd00::1", "localhost"}), 0),
              ElementsAre("b"));
  EXPECT_THAT(NamesToAsk(HostsNamed({"10.0.0.1", "127.0.0.1"}), 0), IsEmpty());
  std::vector<std::string> many;
  for (int i = 0; i < 4000; ++i) many.push_back("h" + std::to_string(i));
  EXPECT_THAT(NamesToAsk(HostsNamed(many), 2000), SizeIs(17));
}

TEST(NameCheck, HasNothingToSayWhereAllAgree) {
  const auto hosts = HostsNamed({"a", "b"});
  EXPECT_THAT(CompareNames(hosts, {Answer({"127.0.0.1", "10.0.0.1"}, {{"10.0.0.1"}, {"10.0.0.2"}}),
                                   Answer({"10.0.0.2"}, {{"10.0.0.1"}, {"10.0.0.2"}})}),
              IsEmpty());
  // Many hosts on one machine; one that has not answered; one without IPv6.
  EXPECT_THAT(CompareNames(hosts, {Answer({}, {{"127.1.0.1"}, {"127.1.0.2"}}),
                                   Answer({}, {{"127.1.0.1"}, {"127.1.0.2"}})}),
              IsEmpty());
  EXPECT_THAT(CompareNames(hosts, {Answer({}, {{"10.0.0.1"}, {"10.0.0.2"}}), std::nullopt}),
              IsEmpty());
  EXPECT_THAT(CompareNames(hosts, {Answer({}, {{"10.0.0.1"}, {"fd00::2"}}),
                                   Answer({}, {{"10.0.0.1"}, {"10.0.0.2"}})}),
              IsEmpty());
}

TEST(NameCheck, NamesWhatCannotBeResolvedAndWhere) {
  const auto warnings = CompareNames(
      HostsNamed({"a", "b", "c"}),
      {Answer({}, {{"10.0.0.1"}, {"10.0.0.2"}, {}}), Answer({}, {{"10.0.0.1"}, {"10.0.0.2"}, {}}),
       Answer({}, {{"10.0.0.1"}, {"10.0.0.2"}, {"10.0.0.3"}})});
  ASSERT_THAT(warnings, SizeIs(1));
  EXPECT_EQ(warnings[0].text, "names cannot be resolved: c on a and 1 more");
  EXPECT_THAT(warnings[0].remedy, HasSubstr("numeric addresses"));
}

TEST(NameCheck, NamesALoopbackNameThatOthersNeed) {
  const auto warnings =
      CompareNames(HostsNamed({"a", "b"}), {Answer({"10.0.0.1"}, {{"127.0.1.1"}, {"10.0.0.2"}}),
                                            Answer({"10.0.0.2"}, {{"10.0.0.1"}, {"127.0.1.1"}})});
  ASSERT_THAT(warnings, SizeIs(1));
  EXPECT_THAT(warnings[0].text,
              HasSubstr("resolve their own names to loopback: a is 127.0.1.1; b is 127.0.1.1"));
}

TEST(NameCheck, NamesTwoAnswersWithTheHostsThatGiveThem) {
  const auto warnings = CompareNames(HostsNamed({"a", "b", "c"}),
                                     {Answer({}, {{"10.0.0.1"}, {"10.0.0.2"}, {"10.0.0.3"}}),
                                      Answer({}, {{"10.0.0.1"}, {"10.0.0.2"}, {"10.0.0.9"}}),
                                      Answer({}, {{"10.0.0.1"}, {"10.0.0.2"}, {"10.0.0.3"}})});
  ASSERT_THAT(warnings, SizeIs(1));
  EXPECT_EQ(warnings[0].text,
            "names resolve to different machines on different hosts: "
            "c is 10.0.0.3 on a, and 10.0.0.9 on b");
}

TEST(NameCheck, NamesAnotherMachineThanTheOneThatSshReaches) {
  const auto warnings = CompareNames(
      HostsNamed({"a", "b"}), {Answer({"10.0.0.1"}, {{"10.0.0.1"}, {"10.0.0.9"}}),
                               Answer({"127.0.0.1", "10.0.0.2"}, {{"10.0.0.1"}, {"10.0.0.9"}})});
  ASSERT_THAT(warnings, SizeIs(1));
  EXPECT_EQ(warnings[0].text,
            "names resolve to another machine than SSH reaches: "
            "b is 10.0.0.9 on a, and SSH leads to a machine with 10.0.0.2");
}

TEST(NameCheck, FoldsManyOfAKindAndTakesNoTextForAnAddress) {
  const auto hosts = HostsNamed({"a", "b", "c", "d", "e", "f"});
  const std::vector<std::vector<std::string>> garbage(6, {"\x1b]0;owned\x07", "$(reboot)"});
  const auto warnings = CompareNames(hosts, Answers(6, Answer({}, garbage)));
  ASSERT_THAT(warnings, SizeIs(1));
  EXPECT_EQ(warnings[0].text,
            "names cannot be resolved: a on a and 5 more; b on b and 5 more; c on c and 5 more; "
            "and 3 more");
}

}  // namespace
}  // namespace tfdist::cli
