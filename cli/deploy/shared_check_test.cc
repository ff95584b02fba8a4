#include "cli/deploy/shared_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tfdist::cli {
namespace {

using protocol::SharedFolder;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

Plan PlanOf(int hosts) {
  Plan plan;
  plan.shared = "/mnt/out";
  for (int i = 0; i < hosts; ++i) {
    HostPlan host;
    host.name = "h" + std::to_string(i);
    plan.hosts.push_back(host);
  }
  return plan;
}

TEST(SharedCheck, SaysNothingWhereAllSeeTheMarkOrNobodyWasAsked) {
  EXPECT_THAT(CompareShared(PlanOf(2), {SharedFolder{true, ""}, SharedFolder{true, ""}}),
              IsEmpty());
  EXPECT_THAT(CompareShared(PlanOf(2), {std::nullopt, std::nullopt}), IsEmpty());
}

TEST(SharedCheck, NamesTheHostsThatHaveAnotherFolder) {
  const auto warnings = CompareShared(
      PlanOf(6), {SharedFolder{true, ""}, SharedFolder{false, ""}, SharedFolder{true, ""},
                  SharedFolder{false, ""}, SharedFolder{false, ""}, SharedFolder{false, ""}});
  ASSERT_THAT(warnings, SizeIs(1));
  EXPECT_THAT(warnings[0].text,
              HasSubstr("what h0 writes there is not seen on h1, h3, h4 and 1 more"));
}

TEST(SharedCheck, NamesTheHostsWhereItCannotBeUsed) {
  const auto warnings = CompareShared(
      PlanOf(3), {SharedFolder{true, ""}, SharedFolder{false, "/mnt/out: No such file"},
                  SharedFolder{false, ""}});
  ASSERT_THAT(warnings, SizeIs(2));
  EXPECT_EQ(warnings[0].text, "the shared folder cannot be used on h1: /mnt/out: No such file");
}

}  // namespace
}  // namespace tfdist::cli
