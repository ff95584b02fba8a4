#include "runtime/model/dense_network.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "runtime/model/softmax.h"

namespace tfdist::runtime {
namespace {

Batch RandomBatch(size_t samples, size_t pixels, size_t classes) {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<float> pixel(0, 1);
  Batch batch;
  for (size_t i = 0; i < samples * pixels; ++i) batch.pixels.push_back(pixel(random));
  for (size_t i = 0; i < samples; ++i) batch.labels.push_back(static_cast<uint8_t>(i % classes));
  return batch;
}

// Beside the true derivatives, by moving one value after the other.
void CheckGradients(const std::vector<size_t>& widths) {
  DenseNetwork network(widths);
  Tensors values = network.InitialValues(3);
  for (Tensor& value : values) {
    for (float& element : value) element += 0.01F;  // no bias exactly at ReLU's corner
  }
  const Batch batch = RandomBatch(6, widths.front(), widths.back());
  Tensors gradients = Zeros(network.variables());
  network.Gradients(values, batch, gradients);
  constexpr float kMove = 1e-3F;
  for (size_t variable = 0; variable < values.size(); ++variable) {
    for (size_t i = 0; i < values[variable].size(); ++i) {
      const float before = values[variable][i];
      values[variable][i] = before + kMove;
      const double above = network.Evaluate(values, batch).loss;
      values[variable][i] = before - kMove;
      const double below = network.Evaluate(values, batch).loss;
      values[variable][i] = before;
      EXPECT_NEAR(gradients[variable][i], (above - below) / (2 * kMove), 1e-3)
          << ToString(network.variables()[variable]) << " element " << i;
    }
  }
}

TEST(DenseNetwork, GradientsOfSoftmaxRegressionAreTheDerivatives) { CheckGradients({5, 4}); }
TEST(DenseNetwork, GradientsOfOneHiddenLayerAreTheDerivatives) { CheckGradients({5, 7, 4}); }
TEST(DenseNetwork, GradientsOfTwoHiddenLayersAreTheDerivatives) { CheckGradients({5, 7, 6, 4}); }

TEST(DenseNetwork, TellsByItsLossThatAHiddenValueIsNotANumber) {
  DenseNetwork network({5, 7, 4});
  Tensors values = network.InitialValues(3);
  values[0][0] = std::nanf("");
  Tensors gradients = Zeros(network.variables());
  EXPECT_TRUE(std::isnan(network.Gradients(values, RandomBatch(6, 5, 4), gradients)));
}

TEST(DenseNetwork, NamesItsVariablesInOrderOfCreation) {
  EXPECT_EQ(DenseNetwork({64, 128, 10}).variables(),
            (std::vector<TensorSpec>{{"dense0/kernel", {64, 128}},
                                     {"dense0/bias", {128}},
                                     {"dense1/kernel", {128, 10}},
                                     {"dense1/bias", {10}}}));
}

TEST(DenseNetwork, BeginsWithValuesThatFollowFromTheSeed) {
  const DenseNetwork network({8, 4, 2});
  EXPECT_EQ(network.InitialValues(1), network.InitialValues(1));
  EXPECT_NE(network.InitialValues(1), network.InitialValues(2));
}

TEST(Softmax, IsTheSameForLogitsThatAreAllHigher) {
  Tensor low = {0, 1, 2};
  Tensor high = {1000, 1001, 1002};
  Softmax(low, 3);
  Softmax(high, 3);
  EXPECT_EQ(low, high);
  EXPECT_NEAR(low[0] + low[1] + low[2], 1.0F, 1e-6F);
}

TEST(CrossEntropy, IsTheLogarithmOfTheLabelsProbability) {
  const Tensor probabilities = {0.5F, 0.5F, 0.25F, 0.75F};
  const std::vector<uint8_t> labels = {0, 0};
  EXPECT_NEAR(CrossEntropy(probabilities, labels, 2), (std::log(2.0) + std::log(4.0)) / 2, 1e-6);
  EXPECT_EQ(Accuracy(probabilities, labels, 2), 0.5);
}

TEST(CrossEntropy, StaysFiniteForAProbabilityOfZero) {
  EXPECT_TRUE(std::isfinite(CrossEntropy(Tensor{0, 1}, std::vector<uint8_t>{0}, 2)));
}

}  // namespace
}  // namespace tfdist::runtime
