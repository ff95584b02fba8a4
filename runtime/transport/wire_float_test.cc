#include "runtime/transport/wire_float.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "runtime/testing/expect_error.h"

namespace tfdist::runtime {
namespace {

uint16_t Narrowed(float value, WireFloat kind) {
  uint16_t half = 0;
  ToWire({&value, 1}, kind, &half);
  return half;
}

float Widened(uint16_t half, WireFloat kind) {
  float value = 0;
  FromWire(&half, kind, {&value, 1});
  return value;
}

TEST(WireFloat, EveryHalfComesBackAsItWas) {
  for (const WireFloat kind : {WireFloat::kFloat16, WireFloat::kBfloat16}) {
    for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
      const auto half = static_cast<uint16_t>(bits);
      const float value = Widened(half, kind);
      if (std::isnan(value)) {
        EXPECT_TRUE(std::isnan(Widened(Narrowed(value, kind), kind))) << bits;
      } else {
        ASSERT_EQ(Narrowed(value, kind), half) << bits;
      }
    }
  }
}

// IEEE 754: the nearest, of two equally near ones the even one. All neighbours, both signs.
TEST(WireFloat, RoundsToTheNearestAndTiesToEven) {
  for (const WireFloat kind : {WireFloat::kFloat16, WireFloat::kBfloat16}) {
    const uint16_t infinity = kind == WireFloat::kFloat16 ? 0x7c00 : 0x7f80;
    for (uint16_t half = 0; half + 1 < infinity; ++half) {
      const float low = Widened(half, kind);
      const float high = Widened(static_cast<uint16_t>(half + 1), kind);
      const float middle = low + (high - low) / 2;
      const uint16_t even = half % 2 == 0 ? half : static_cast<uint16_t>(half + 1);
      ASSERT_EQ(Narrowed(middle, kind), even) << half;
      ASSERT_EQ(Narrowed(std::nextafter(middle, low), kind), half) << half;
      ASSERT_EQ(Narrowed(std::nextafter(middle, high), kind), half + 1) << half;
      ASSERT_EQ(Narrowed(-middle, kind), even | 0x8000) << half;
    }
  }
}

TEST(WireFloat, ValuesTooLargeBecomeInfinite) {
  EXPECT_EQ(Widened(Narrowed(65504, WireFloat::kFloat16), WireFloat::kFloat16), 65504);
  EXPECT_EQ(Narrowed(65520, WireFloat::kFloat16), 0x7c00);
  EXPECT_EQ(Narrowed(-1e10F, WireFloat::kFloat16), 0xfc00);
  EXPECT_EQ(Narrowed(std::numeric_limits<float>::max(), WireFloat::kBfloat16), 0x7f80);
}

TEST(WireFloat, TellsWhatFits) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const WireFloat kind : {WireFloat::kFloat32, WireFloat::kFloat16, WireFloat::kBfloat16}) {
    EXPECT_TRUE(Fit(std::vector<float>{0, -1, 65504}, kind));
    EXPECT_FALSE(Fit(std::vector<float>{0, -kInfinity}, kind));
    EXPECT_FALSE(Fit(std::vector<float>{std::nanf(""), 1}, kind));
  }
  // The least that does not is the one that is written as infinity.
  for (const WireFloat kind : {WireFloat::kFloat16, WireFloat::kBfloat16}) {
    const float middle =
        kind == WireFloat::kFloat16 ? 65520 : std::bit_cast<float>(uint32_t{0x7f7f8000});
    EXPECT_TRUE(std::isinf(Widened(Narrowed(middle, kind), kind)));
    EXPECT_FALSE(Fit(std::vector<float>{-middle}, kind));
    const float below = std::nextafter(middle, 0.0F);
    EXPECT_FALSE(std::isinf(Widened(Narrowed(below, kind), kind)));
    EXPECT_TRUE(Fit(std::vector<float>{-below}, kind));
  }
}

// Vector instructions do many, what is left over one at a time: the same bits, NaNs apart.
TEST(WireFloat, ManyAtOnceAreTheSameAsOneAtATime) {
  std::vector<float> values;
  for (uint32_t high = 0; high <= 0xffff; ++high) {
    for (const uint32_t low : {0x0000U, 0x0fffU, 0x1000U, 0x7fffU, 0x8000U, 0xffffU}) {
      const auto value = std::bit_cast<float>(high << 16 | low);
      if (!std::isnan(value)) values.push_back(value);
    }
  }
  values.resize(values.size() / 8 * 8 + 5, 1.5F);
  for (const WireFloat kind : {WireFloat::kFloat16, WireFloat::kBfloat16}) {
    std::vector<uint16_t> halves(values.size());
    ToWire(values, kind, halves.data());
    std::vector<float> back(values.size());
    FromWire(halves.data(), kind, back);
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(halves[i], Narrowed(values[i], kind)) << values[i];
      ASSERT_EQ(std::bit_cast<uint32_t>(back[i]),
                std::bit_cast<uint32_t>(Widened(halves[i], kind)));
    }
  }
}

constexpr uint32_t kNans[] = {0x7fc00000, 0xffc00000, 0x7f800001, 0xff802000, 0x7fffffff};

// Its neighbours in a vector are what they were.
void ExpectANanAlone(size_t count, size_t place, uint32_t nan, WireFloat kind) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i) - 2.5F;
  values[place] = std::bit_cast<float>(nan);
  std::vector<uint16_t> halves(count);
  ToWire(values, kind, halves.data());
  std::vector<float> back(count);
  FromWire(halves.data(), kind, back);
  for (size_t i = 0; i < count; ++i) {
    EXPECT_EQ(std::isnan(back[i]), i == place) << nan << " at " << place << ", seen at " << i;
    if (i != place) {
      EXPECT_EQ(back[i], values[i]);
    }
  }
}

// As many as vector instructions do at once, and one more.
TEST(WireFloat, ANanIsOneWhereItWasAndNowhereElse) {
  for (const WireFloat kind : {WireFloat::kFloat16, WireFloat::kBfloat16}) {
    for (const size_t count : {8U, 9U}) {
      for (size_t place = 0; place < count; ++place) {
        for (const uint32_t nan : kNans) ExpectANanAlone(count, place, nan, kind);
      }
    }
  }
}

TEST(WireFloat, WritesAndReadsAtAnyAddress) {
  const std::vector<float> values = {1, -2.5F, 0.0F, 1024};
  for (const WireFloat kind : {WireFloat::kFloat32, WireFloat::kFloat16, WireFloat::kBfloat16}) {
    std::vector<char> bytes(1 + values.size() * SizeOf(kind));
    ToWire(values, kind, bytes.data() + 1);
    std::vector<float> back(values.size());
    FromWire(bytes.data() + 1, kind, back);
    EXPECT_EQ(back, values);
  }
}

TEST(WireFloat, IsReadFromItsName) {
  EXPECT_EQ(ParseWireFloat("float32"), WireFloat::kFloat32);
  EXPECT_EQ(ParseWireFloat("float16"), WireFloat::kFloat16);
  EXPECT_EQ(ParseWireFloat("bfloat16"), WireFloat::kBfloat16);
  testing::ExpectError([] { ParseWireFloat("half"); }, Phase::kUsage, "half");
}

}  // namespace
}  // namespace tfdist::runtime
