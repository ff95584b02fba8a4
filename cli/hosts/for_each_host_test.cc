#include "cli/hosts/for_each_host.h"

#include <gtest/gtest.h>

#include <atomic>
#include <nlohmann/json.hpp>

namespace tfdist::cli {
namespace {

// On a thread of its own an exception that nobody catches would end the whole command.
TEST(ForEachHost, WhatIsThrownForOneHostIsTheFailureOfThatHostAlone) {
  std::atomic<int> calls = 0;
  const auto failures = ForEachHost(100, [&](size_t at) {
    ++calls;
    if (at % 10 == 3) (void)nlohmann::json::object().at("left");
    if (at % 10 == 4) throw Error(Phase::kConnect, "refused");
  });
  EXPECT_EQ(calls, 100);
  ASSERT_EQ(failures.size(), 100U);
  for (size_t at = 0; at < failures.size(); ++at) {
    EXPECT_EQ(failures[at].has_value(), at % 10 == 3 || at % 10 == 4) << at;
  }
  EXPECT_NE(failures[3]->cause().find("left"), std::string::npos);
  EXPECT_EQ(failures[4]->phase(), Phase::kConnect);
}

}  // namespace
}  // namespace tfdist::cli
