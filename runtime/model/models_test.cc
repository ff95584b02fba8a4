#include "runtime/model/models.h"

#include <gtest/gtest.h>

#include "runtime/device/cpu_device.h"
#include "runtime/model/testing/gradient_check.h"
#include "runtime/testing/expect_error.h"

namespace tfdist::runtime {
namespace {

constexpr size_t kClasses = 4;

void CheckGradients(const ModelSpec& spec, const ImageShape& image) {
  CpuDevice device;
  Sequential model = MakeModel(spec, image, kClasses, device);
  testing::ExpectTrueGradients(model, testing::RandomBatch(6, image.size(), kClasses), 3);
}

TEST(Models, GradientsOfSoftmaxRegressionAreTheDerivatives) {
  CheckGradients({.kind = "softmax"}, {1, 5, 1});
}
TEST(Models, GradientsOfOneHiddenLayerAreTheDerivatives) {
  CheckGradients({.kind = "mlp", .hidden = {7}}, {1, 5, 1});
}
TEST(Models, GradientsOfTwoHiddenLayersAreTheDerivatives) {
  CheckGradients({.kind = "mlp", .hidden = {7, 6}}, {1, 5, 1});
}
TEST(Models, GradientsOfACnnAreTheDerivatives) {
  CheckGradients({.kind = "cnn", .hidden = {6}, .filters = {3, 4}}, {6, 5, 1});
}

TEST(Models, NameTheirVariablesInOrderOfCreation) {
  CpuDevice device;
  EXPECT_EQ(MakeModel({}, {8, 8, 1}, 10, device).variables(),
            (std::vector<TensorSpec>{{"dense0/kernel", {64, 128}},
                                     {"dense0/bias", {128}},
                                     {"dense1/kernel", {128, 10}},
                                     {"dense1/bias", {10}}}));
  EXPECT_EQ(MakeModel({"cnn", {128}, {16, 32}}, {8, 8, 1}, 10, device).variables(),
            (std::vector<TensorSpec>{{"conv0/kernel", {5, 5, 1, 16}},
                                     {"conv0/bias", {16}},
                                     {"conv1/kernel", {5, 5, 16, 32}},
                                     {"conv1/bias", {32}},
                                     {"dense0/kernel", {128, 128}},
                                     {"dense0/bias", {128}},
                                     {"dense1/kernel", {128, 10}},
                                     {"dense1/bias", {10}}}));
}

TEST(Models, SayWhatTheyAre) {
  EXPECT_EQ(ToString({.kind = "softmax"}, {8, 8, 1}, 10), "softmax 64-10");
  EXPECT_EQ(ToString({}, {8, 8, 1}, 10), "mlp 64-128-10");
  EXPECT_EQ(ToString({.kind = "cnn"}, {8, 8, 1}, 10), "cnn 8x8-32-64-128-10");
}

TEST(Models, RefuseImagesThatAreTooSmallForTheirPools) {
  CpuDevice device;
  testing::ExpectError(
      [&] {
        (void)MakeModel({"cnn", {128}, {4, 4, 4, 4}}, {8, 8, 1}, 10, device);
      },
      Phase::kUsage, "images of 8x8 pixels are too small for 4 pools");
}

TEST(Models, RefuseAKindThatIsNone) {
  CpuDevice device;
  testing::ExpectError(
      [&] {
        (void)MakeModel({.kind = "rnn"}, {8, 8, 1}, 10, device);
      },
      Phase::kUsage, "there are softmax, mlp, cnn");
}

}  // namespace
}  // namespace tfdist::runtime
