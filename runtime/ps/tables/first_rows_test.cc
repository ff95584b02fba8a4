#include "runtime/ps/tables/first_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "runtime/ps/tables/philox.h"
#include "runtime/testing/expect_error.h"

namespace tfdist::runtime {
namespace {

using testing::ExpectError;

std::vector<float> FirstRows(const TablePart& part) {
  std::vector<float> values(size_t{part.rows} * part.width);
  FillFirstRows(part, values);
  return values;
}

double MeanOf(const std::vector<float>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double DeviationOf(const std::vector<float>& values) {
  double squares = 0;
  for (const float value : values) squares += double{value} * value;
  const double mean = MeanOf(values);
  return std::sqrt(squares / static_cast<double>(values.size()) - mean * mean);
}

// Source: the authors' known answers (Random123, kat_vectors).
TEST(Philox, GivesItsAuthorsNumbers) {
  EXPECT_EQ(Philox({0, 0, 0, 0}, {0, 0}),
            (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(Philox({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(FirstRows, OfAPartAreThoseOfTheWholeTable) {
  constexpr uint32_t kWidth = 6;
  const RowInitializer initial = UniformRows(-1, 1, 5);
  const std::vector<float> whole = FirstRows({"t", 20, kWidth, 0, 1, initial});
  const std::vector<float> part = FirstRows({"t", 4, kWidth, 2, 5, initial});
  for (uint32_t row = 0; row < 4; ++row) {
    const auto* const from = whole.data() + (2 + 5 * row) * kWidth;
    EXPECT_TRUE(std::equal(from, from + kWidth, part.data() + row * kWidth)) << row;
  }
}

TEST(FirstRows, DifferByTableAndSeed) {
  const auto rows = [](const std::string& table, uint64_t seed) {
    return FirstRows({table, 3, 4, 0, 1, UniformRows(0, 1, seed)});
  };
  EXPECT_EQ(rows("a", 1), rows("a", 1));
  EXPECT_NE(rows("a", 1), rows("b", 1));
  EXPECT_NE(rows("a", 1), rows("a", 2));
  EXPECT_NE(rows("a", 1), rows("a", uint64_t{1} << 32));
}

TEST(FirstRows, AreUniformInTheirRange) {
  const auto values = FirstRows({"t", 20'000, 10, 0, 1, UniformRows(-2, 4, 1)});
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  EXPECT_GE(*least, -2);
  EXPECT_LT(*most, 4);
  EXPECT_NEAR(MeanOf(values), 1, 0.02);
  EXPECT_NEAR(DeviationOf(values), 6 / std::sqrt(12.0), 0.02);
}

// A normal distribution cut at two deviations has 0.8796 of its deviation.
TEST(FirstRows, AreNormalWithinTwoDeviations) {
  const auto values = FirstRows({"t", 20'000, 10, 0, 1, TruncatedNormalRows(1, 0.5F, 1)});
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  EXPECT_GE(*least, 0);
  EXPECT_LE(*most, 2);
  EXPECT_LT(*least, 0.001F);
  EXPECT_GT(*most, 1.999F);
  EXPECT_NEAR(MeanOf(values), 1, 0.005);
  EXPECT_NEAR(DeviationOf(values), 0.5 * 0.87962566, 0.005);
  const auto near = std::count_if(values.begin(), values.end(),
                                  [](float value) { return std::abs(value - 1) < 0.5F; });
  EXPECT_NEAR(static_cast<double>(near) / 200'000, 0.682689 / 0.954500, 0.005);
}

TEST(FirstRows, MayAllBeEqual) {
  EXPECT_EQ(FirstRows({"t", 2, 2, 0, 1, UniformRows(0.1F, 0.1F, 1)}),
            (std::vector<float>{0.1F, 0.1F, 0.1F, 0.1F}));
}

TEST(FirstRows, WithImpossibleNumbersAreRefused) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  ExpectError([&] { Check(UniformRows(0, nan, 1)); }, Phase::kRun, "not finite");
  ExpectError([&] { Check(UniformRows(1, 0, 1)); }, Phase::kRun, "below the least");
  ExpectError([&] { Check(TruncatedNormalRows(0, -1, 1)); }, Phase::kRun, "below 0");
}

}  // namespace
}  // namespace tfdist::runtime
