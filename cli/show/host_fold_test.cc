#include "cli/show/host_fold.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tfdist::cli {
namespace {

TEST(FoldHosts, FoldsNamesThatDifferInTheirLastNumber) {
  EXPECT_EQ(FoldHosts({"gpu1"}), "gpu1");
  EXPECT_EQ(FoldHosts({"gpu1", "gpu2", "head", "gpu7"}), "gpu[1-2,7], head");
  EXPECT_EQ(FoldHosts({"10.0.0.3", "10.0.0.1", "10.0.0.2"}), "10.0.0.[1-3]");
  EXPECT_EQ(FoldHosts({"rack2-gpu1.lan", "rack2-gpu3.lan"}), "rack2-gpu[1,3].lan");
  EXPECT_EQ(FoldHosts({"alpha", "beta"}), "alpha, beta");
}

TEST(FoldHosts, KeepsLeadingZeros) {
  EXPECT_EQ(FoldHosts({"gpu08", "gpu09", "gpu10"}), "gpu[08-10]");
  EXPECT_EQ(FoldHosts({"gpu9", "gpu10"}), "gpu9, gpu10");
}

TEST(FoldHosts, LeavesANumberThatIsTooLongAlone) {
  const std::string name = "h" + std::string(40, '7');
  EXPECT_EQ(FoldHosts({name, name + "8"}), name + ", " + name + "8");
}

TEST(GroupErrors, OneGroupForEachCauseWhateverTheHostAndItsNumbers) {
  std::vector<Error> errors;
  for (int host = 1; host <= 200; ++host) {
    const std::string name = fmt::format("gpu{:03}", host);
    const auto cause = host == 7 ? "timed out" : fmt::format("{}, 10.0.0.{}: refused", name, host);
    errors.push_back(Error(Phase::kConnect, cause, "is sshd running?").WithHost(name));
  }
  const auto groups = GroupErrors(errors);
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_EQ(groups[0].size(), 199U);
  EXPECT_EQ(groups[0].front().host(), "gpu001");
  ASSERT_EQ(groups[1].size(), 1U);
  EXPECT_EQ(groups[1].front().host(), "gpu007");
}

TEST(GroupErrors, WhatAllSlotsOfAMachineSayIsThereOnce) {
  const Error error = Error(Phase::kGpus, "too few", "list them twice").WithHost("h1");
  const auto groups = GroupErrors(
      {error, error, Error(Phase::kGpus, "too few", "list them twice").WithHost("h2"), error});
  ASSERT_EQ(groups.size(), 1U);
  EXPECT_EQ(groups[0].size(), 2U);
}

}  // namespace
}  // namespace tfdist::cli
