#include "runtime/placement/round_robin.h"

#include <gtest/gtest.h>

namespace tfdist::runtime {
namespace {

TEST(PlaceRoundRobin, GoesRoundTheServersInOrderOfCreation) {
  EXPECT_EQ(PlaceRoundRobin(3, 2), (Placement{{0, 2}, {1}}));  // TensorFlow's docstring: 0 1 0
  EXPECT_EQ(PlaceRoundRobin(4, 1), (Placement{{0, 1, 2, 3}}));
}

TEST(PlaceRoundRobin, LeavesServersEmptyWhenThereAreTooFewVariables) {
  EXPECT_EQ(PlaceRoundRobin(1, 3), (Placement{{0}, {}, {}}));
}

}  // namespace
}  // namespace tfdist::runtime
