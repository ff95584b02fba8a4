#include "cli/stream/host_fold.h"

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

Error On(const std::string& host, const std::string& cause, const std::string& remedy = "try it") {
  return Error(Phase::kCommand, cause, remedy).WithHost(host);
}

// The first of each group, and where else it is the same.
std::vector<std::string> Said(const std::vector<Error>& errors) {
  std::vector<std::string> said;
  for (const FoldedError& folded : FoldErrors(errors)) {
    said.push_back(folded.all.front().host() + ": " + folded.all.front().cause());
    if (!folded.elsewhere.empty()) said.push_back(folded.elsewhere);
  }
  return said;
}

using Lines = std::vector<std::string>;

TEST(FoldErrors, OneForEachCauseWhateverTheHostAndItsNumbers) {
  std::vector<Error> errors;
  for (int host = 1; host <= 200; ++host) {
    const std::string name = fmt::format("gpu{:03}", host);
    const auto cause = host == 7 ? "timed out" : fmt::format("{}, 10.0.0.{}: refused", name, host);
    errors.push_back(On(name, cause));
  }
  EXPECT_EQ(Said(errors),
            (Lines{"gpu001: gpu001, 10.0.0.1: refused",
                   "the same on 198 more hosts: gpu[002-006,008-200]", "gpu007: timed out"}));
}

TEST(FoldErrors, WhatAllSlotsOfAMachineSayIsThereOnce) {
  EXPECT_EQ(
      Said({On("h1", "too few"), On("h1", "too few"), On("h2", "too few"), On("h1", "too few")}),
      (Lines{"h1: too few", "the same on 1 more host: h2"}));
}

TEST(FoldErrors, TasksOfOneHostAndOfSeveralAreNamedOnce) {
  EXPECT_EQ(Said({On("h1", "command of worker:0: none"), On("h1", "command of worker:1: none"),
                  On("h1", "command of worker:2: none")}),
            (Lines{"h1: command of worker:0: none", "the same for worker:[1-2]"}));
  EXPECT_EQ(
      Said({On("h1", "command of ps:0: none"), On("h2", "command of my-type:1: none"),
            On("h3", "command of ps:1: none")}),
      (Lines{"h1: command of ps:0: none", "the same on 2 more hosts: h[2-3] (my-type:1, ps:1)"}));
}

TEST(FoldErrors, OfTwoHostsTheFolderOfASlotAndTheHostItselfDoNotCount) {
  EXPECT_EQ(Said({On("a", "root@a: /jobs/j/h0/work is gone", "ssh a"),
                  On("b", "root@b: /jobs/j/h1/work is gone", "ssh b")}),
            (Lines{"a: root@a: /jobs/j/h0/work is gone", "the same on 1 more host: b"}));
}

TEST(FoldErrors, OtherCausesPortsAndRemediesStayApart) {
  for (const auto& [one, other] : std::vector<std::pair<Error, Error>>{
           {On("h1", "port 2222 of ps:0 is taken"), On("h1", "port 2223 of ps:1 is taken")},
           {On("h1", "gpu2:2222 is taken"), On("h1", "gpu2:2223 is taken")},
           {On("h1", "h12 is off"), On("h2", "h22 is off")},
           {On("h1", "off", "turn it on"), On("h2", "off", "buy another")},
           {On("h1", "version 1.2"), On("h2", "version 1.3")}}) {
    EXPECT_EQ(FoldErrors({one, other}).size(), 2U) << one.what();
  }
}

}  // namespace
}  // namespace tfdist::cli
