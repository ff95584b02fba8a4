#include "runtime/update/row_summer.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

namespace tfdist::runtime {
namespace {

std::vector<uint32_t> RowsOf(const RowsGradient& gradient) {
  return {gradient.rows.begin(), gradient.rows.end()};
}

std::vector<float> ValuesOf(const RowsGradient& gradient) {
  return {gradient.values.begin(), gradient.values.end()};
}

TEST(RowSummer, SumsTheGradientsOfARowAndKeepsTheOrder) {
  const std::vector<uint32_t> rows = {7, 0, 7, 4000000000, 7, 0};
  const std::vector<float> values = {1, 2, 10, 20, 100, 200, 1000, 2000, 0.5F, 0.25F, 3, 4};
  RowSummer summer;
  const RowsGradient sum = summer.Sum({2, rows, values});
  EXPECT_EQ(sum.width, 2U);
  EXPECT_EQ(RowsOf(sum), (std::vector<uint32_t>{7, 0, 4000000000}));
  EXPECT_EQ(ValuesOf(sum), (std::vector<float>{101.5F, 202.25F, 13, 24, 1000, 2000}));
}

TEST(RowSummer, CopiesNothingWhenEachRowIsNamedOnce) {
  const std::vector<float> values = {1, 2, 3};
  RowSummer summer;
  for (const std::vector<uint32_t>& rows :
       {std::vector<uint32_t>{1, 2, 9}, std::vector<uint32_t>{9, 2, 1}}) {
    const RowsGradient sum = summer.Sum({1, rows, values});
    EXPECT_EQ(sum.rows.data(), rows.data());
    EXPECT_EQ(sum.values.data(), values.data());
  }
  EXPECT_TRUE(summer.Sum({1, {}, {}}).rows.empty());
}

TEST(RowSummer, RemembersNothingOfEarlierCalls) {
  std::mt19937 random(5);
  RowSummer summer;
  for (int call = 0; call < 50; ++call) {
    const size_t count = random() % 300;
    std::vector<uint32_t> rows(count);
    std::vector<float> values(count);
    std::map<uint32_t, float> expected;
    for (size_t i = 0; i < count; ++i) {
      rows[i] = random() % 100;
      values[i] = static_cast<float>(random() % 1000);
      expected[rows[i]] += values[i];
    }
    const RowsGradient sum = summer.Sum({1, rows, values});
    std::map<uint32_t, float> got;
    for (size_t i = 0; i < sum.rows.size(); ++i) got.emplace(sum.rows[i], sum.values[i]);
    ASSERT_EQ(sum.rows.size(), expected.size());
    ASSERT_EQ(got, expected);
  }
}

}  // namespace
}  // namespace tfdist::runtime
