#include "runtime/model/sequential.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "runtime/device/cpu_device.h"
#include "runtime/model/models.h"
#include "runtime/model/testing/gradient_check.h"

namespace tfdist::runtime {
namespace {

using ::testing::ElementsAre;
using testing::RandomBatch;

void SetValues(const Sequential& model, const Tensors& values) {
  for (size_t i = 0; i < values.size(); ++i) {
    std::copy(values[i].begin(), values[i].end(), model.values()[i].begin());
  }
}

TEST(Sequential, TellsByItsLossThatAHiddenValueIsNotANumber) {
  CpuDevice device;
  for (const char* kind : {"mlp", "cnn"}) {
    Sequential model = MakeModel({kind, {7}, {3}}, {4, 4, 1}, 4, device);
    SetValues(model, model.InitialValues(3));
    model.values()[0][0] = std::nanf("");
    EXPECT_TRUE(std::isnan(model.Gradients(RandomBatch(6, 16, 4)))) << kind;
  }
}

TEST(Sequential, BeginsWithValuesThatFollowFromTheSeed) {
  CpuDevice device;
  const Sequential model = MakeModel({"mlp", {4}, {}}, {2, 4, 1}, 2, device);
  EXPECT_EQ(model.InitialValues(1), model.InitialValues(1));
  EXPECT_NE(model.InitialValues(1), model.InitialValues(2));
}

TEST(Sequential, AsksForValuesFirstLayerFirstAndGivesGradientsLastLayerFirst) {
  CpuDevice device;
  Sequential model = MakeModel({"cnn", {7}, {3}}, {4, 4, 1}, 4, device);
  std::vector<std::string> calls;
  model.Forward(RandomBatch(6, 16, 4), [&](LayerVariables variables) {
    EXPECT_EQ(variables.count, 2U);
    calls.push_back("needs " + model.variables()[variables.first].name);
  });
  model.Backward([&](float loss) { calls.push_back(loss > 0 ? "has loss" : "has no loss"); },
                 [&](size_t variable, size_t floats) {
                   EXPECT_EQ(floats, model.gradients()[variable].size());
                   calls.push_back("has " + model.variables()[variable].name);
                 });
  EXPECT_THAT(calls,
              ElementsAre("needs conv0/kernel", "needs dense0/kernel", "needs dense1/kernel",
                          "has loss", "has dense1/kernel", "has dense1/bias", "has dense0/kernel",
                          "has dense0/bias", "has conv0/kernel", "has conv0/bias"));
}

TEST(Sequential, EvaluatesABatchThatIsLargerThanItsPieces) {
  CpuDevice device;
  Sequential model = MakeModel({"softmax", {}, {}}, {1, 2, 1}, 2, device);
  SetValues(model, {{1, 0, 0, 1}, {0, 0}});
  Batch batch;  // 3000 samples with the label of the larger pixel, but for the last
  for (size_t i = 0; i < 3000; ++i) {
    batch.pixels.insert(batch.pixels.end(), {1, 0});
    batch.labels.push_back(i == 2999 ? 1 : 0);
  }
  const Quality quality = model.Evaluate(batch);
  EXPECT_DOUBLE_EQ(quality.accuracy, 2999.0 / 3000);
  const double right = std::log(1 + std::exp(-1.0));
  EXPECT_NEAR(quality.loss, right + 1.0 / 3000, 1e-6);
}

}  // namespace
}  // namespace tfdist::runtime
