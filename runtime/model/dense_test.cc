#include "runtime/model/dense.h"

#include <gtest/gtest.h>

#include "runtime/device/cpu_device.h"
#include "runtime/model/testing/gradient_check.h"

namespace tfdist::runtime {
namespace {

TEST(Dense, GradientsAreTheDerivatives) {
  CpuDevice device;
  Dense layer("dense0", {1, 2, 3}, 5);
  testing::ExpectTrueGradients(device, layer, 4);
}

TEST(Dense, TakesAnImageAsAVector) {
  EXPECT_EQ(Dense("out", {2, 3, 4}, 5).variables(),
            (std::vector<TensorSpec>{{"out/kernel", {24, 5}}, {"out/bias", {5}}}));
}

}  // namespace
}  // namespace tfdist::runtime
