#include "runtime/model/max_pool.h"

#include <gtest/gtest.h>

#include "runtime/device/cpu_device.h"
#include "runtime/model/testing/gradient_check.h"

namespace tfdist::runtime {
namespace {

TEST(MaxPool, GradientsAreTheDerivatives) {
  CpuDevice device;
  MaxPool apart({4, 6, 3}, 2, 2, Padding::kValid);
  testing::ExpectTrueGradients(device, apart, 2);
  MaxPool overlapping({5, 4, 2}, 3, 2, Padding::kSame);
  testing::ExpectTrueGradients(device, overlapping, 2);
}

TEST(MaxPool, LeavesOutWhatNoWholeWindowCovers) {
  EXPECT_EQ(MaxPool({5, 7, 3}, 2, 2, Padding::kValid).output(), (ImageShape{2, 3, 3}));
}

}  // namespace
}  // namespace tfdist::runtime
