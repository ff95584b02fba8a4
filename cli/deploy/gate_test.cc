#include "cli/deploy/gate.h"

#include <gtest/gtest.h>

#include <thread>

namespace tfdist::cli {
namespace {

using namespace std::chrono_literals;

TEST(Gate, OpensWhenTheLastHasArrivedWell) {
  Gate gate(2);
  gate.Arrive(true);
  EXPECT_EQ(gate.Wait(0ms), Gate::State::kWaiting);
  std::thread last([&] { gate.Arrive(true); });
  EXPECT_EQ(gate.Wait(60s), Gate::State::kOpen);
  last.join();
}

TEST(Gate, ShutsOnlyWhenAllHaveArrivedSoThatEachFailureIsSeen) {
  Gate gate(2);
  gate.Arrive(false);
  EXPECT_EQ(gate.Wait(0ms), Gate::State::kWaiting);
  gate.Arrive(true);
  EXPECT_EQ(gate.Wait(0ms), Gate::State::kShut);
}

TEST(Gate, ACancelShutsItAtOnce) {
  Gate gate(2);
  gate.Cancel();
  EXPECT_EQ(gate.Wait(60s), Gate::State::kShut);
}

}  // namespace
}  // namespace tfdist::cli
