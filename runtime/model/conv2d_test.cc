#include "runtime/model/conv2d.h"

#include <gtest/gtest.h>

#include "runtime/device/cpu_device.h"
#include "runtime/model/testing/gradient_check.h"

namespace tfdist::runtime {
namespace {

TEST(Conv2d, GradientsAreTheDerivatives) {
  CpuDevice device;
  for (const Padding padding : {Padding::kSame, Padding::kValid}) {
    for (const size_t stride : {1, 2}) {
      Conv2d layer("conv0", {5, 4, 2},
                   {.filters = 3, .size = 3, .stride = stride, .padding = padding});
      testing::ExpectTrueGradients(device, layer, 2);
    }
  }
}

TEST(Conv2d, NamesItsVariables) {
  EXPECT_EQ(Conv2d("conv0", {8, 8, 3}, {.filters = 16}).variables(),
            (std::vector<TensorSpec>{{"conv0/kernel", {5, 5, 3, 16}}, {"conv0/bias", {16}}}));
}

}  // namespace
}  // namespace tfdist::runtime
