#include "runtime/update/sgd.h"

#include <gtest/gtest.h>

#include <vector>

namespace tfdist::runtime {
namespace {

TEST(Sgd, SubtractsTheGradientTimesTheLearningRate) {
  std::vector<float> variable = {1.0F, -2.0F, 0.5F};
  const std::vector<float> gradient = {0.5F, 4.0F, 0.0F};
  Sgd(0.25F).Apply(variable, gradient);
  EXPECT_EQ(variable, (std::vector<float>{0.875F, -3.0F, 0.5F}));
}

}  // namespace
}  // namespace tfdist::runtime
