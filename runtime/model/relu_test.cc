#include "runtime/model/relu.h"

#include <gtest/gtest.h>

#include "runtime/device/cpu_device.h"
#include "runtime/model/testing/gradient_check.h"

namespace tfdist::runtime {
namespace {

TEST(Relu, GradientsAreTheDerivatives) {
  CpuDevice device;
  Relu layer({3, 3, 2});
  testing::ExpectTrueGradients(device, layer, 4);
}

}  // namespace
}  // namespace tfdist::runtime
