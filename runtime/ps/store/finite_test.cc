#include "runtime/ps/store/finite.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace tfdist::runtime {
namespace {

constexpr float kInfiniteFloat = std::numeric_limits<float>::infinity();

// However long the rest is that fills no lane of the vectorized loop.
TEST(Finite, FindsOneBadValueWhereverItIs) {
  for (size_t count = 1; count <= 100; ++count) {
    std::vector<float> values(count, -1.5F);
    EXPECT_TRUE(AllFinite(values));
    for (size_t at = 0; at < count; ++at) {
      for (const float bad :
           {kInfiniteFloat, -kInfiniteFloat, std::numeric_limits<float>::quiet_NaN(),
            -std::numeric_limits<float>::quiet_NaN(),
            std::numeric_limits<float>::signaling_NaN()}) {
        values[at] = bad;
        EXPECT_FALSE(AllFinite(values)) << bad << " at " << at << " of " << count;
        EXPECT_EQ(FirstNotFinite(values), at);
      }
      values[at] = -1.5F;
    }
  }
}

TEST(Finite, AcceptsFiniteValues) {
  EXPECT_TRUE(AllFinite({}));
  std::vector<float> values(40);
  for (const float good :
       {0.0F, -0.0F, std::numeric_limits<float>::max(), std::numeric_limits<float>::lowest(),
        std::numeric_limits<float>::min(), std::numeric_limits<float>::denorm_min()}) {
    values.assign(values.size(), good);
    EXPECT_TRUE(AllFinite(values)) << good;
  }
}

}  // namespace
}  // namespace tfdist::runtime
