#include "runtime/common/copy.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace tfdist::runtime {
namespace {

// From and to any address, and nothing beside the target.
TEST(Copy, BringsEachByteToItsPlaceAndWritesNoOther) {
  std::mt19937 random(1);
  std::vector<unsigned char> from(20'000);
  for (unsigned char& byte : from) byte = static_cast<unsigned char>(1 + random() % 255);
  for (const auto copy : {CopyBytes, CopyBytesPastCaches}) {
    for (int round = 0; round < 300; ++round) {
      const size_t count = random() % 9000 >> random() % 12;
      const size_t begin = random() % 100;
      const size_t place = random() % 100;
      std::vector<unsigned char> into(20'000);
      std::vector<unsigned char> expected = into;
      for (size_t i = 0; i < count; ++i) expected[place + i] = from[begin + i];
      copy(&into[place], &from[begin], count);
      ASSERT_EQ(into, expected) << count << " bytes";
    }
  }
}

}  // namespace
}  // namespace tfdist::runtime
