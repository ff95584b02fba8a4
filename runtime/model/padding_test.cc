#include "runtime/model/padding.h"

#include <gtest/gtest.h>

namespace tfdist::runtime {
namespace {

// The examples of https://www.tensorflow.org/api_docs/python/tf/nn, "Notes on padding": 13 pixels,
// windows of 6, stride 5.
TEST(Padding, IsTensorFlows) {
  const ImageShape image = {13, 13, 1};
  EXPECT_EQ(WindowsOn(image, 6, 5, Padding::kValid, 2), (ImageShape{2, 2, 2}));
  EXPECT_EQ(WindowOf(image, 6, 5, Padding::kValid).left, 0U);
  EXPECT_EQ(WindowsOn(image, 6, 5, Padding::kSame, 2), (ImageShape{3, 3, 2}));
  EXPECT_EQ(WindowOf(image, 6, 5, Padding::kSame).left, 1U);  // and 2 on the right
}

TEST(Padding, IsNoneWhereTheStrideLeavesPixelsOut) {
  EXPECT_EQ(WindowOf({8, 8, 1}, 1, 3, Padding::kSame).top, 0U);
}

}  // namespace
}  // namespace tfdist::runtime
