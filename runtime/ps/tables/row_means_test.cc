#include "runtime/ps/tables/row_means.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <numeric>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "base/testing/test_paths.h"

namespace tfdist::runtime {
namespace {

using Rows = std::vector<uint32_t>;
using Values = std::vector<float>;
using ByRow = std::map<uint32_t, Values>;

ByRow ByRowOf(const RowsGradient& gradient) {
  ByRow by_row;
  for (size_t i = 0; i < gradient.rows.size(); ++i) {
    const auto values = gradient.values.subspan(i * gradient.width, gradient.width);
    by_row[gradient.rows[i]] = Values(values.begin(), values.end());
  }
  return by_row;
}

template <typename Number>
std::vector<Number> Numbers(std::istream& words) {
  std::vector<Number> numbers;
  for (Number number = 0; words >> number;) numbers.push_back(number);
  return numbers;
}

TEST(RowMeans, EachRowIsTheMeanOfThePushesThatNameIt) {
  RowMeans means;
  means.Add({1, Rows{3, 1}, Values{3, 1}});
  means.Add({1, Rows{3, 5}, Values{9, 5}});
  const RowsGradient mean = means.Take();
  EXPECT_EQ(Rows(mean.rows.begin(), mean.rows.end()), (Rows{3, 1, 5}));
  EXPECT_EQ(Values(mean.values.begin(), mean.values.end()), (Values{6, 1, 5}));
  EXPECT_TRUE(means.Take().rows.empty());
}

TEST(RowMeans, KnowAPushThatNamesNoRow) {
  RowMeans means;
  EXPECT_FALSE(means.added());
  means.Add({2, {}, {}});
  EXPECT_TRUE(means.added());
  EXPECT_TRUE(means.Take().rows.empty());
  EXPECT_FALSE(means.added());
}

// Bit for bit: testdata/make_row_means.py.
TEST(RowMeans, AreThoseOfTensorFlowsAccumulator) {
  std::ifstream file(TestSourceDir() / "runtime/ps/testdata/row_means.txt");
  RowMeans means;
  Rows rows;
  RowsGradient mean;
  int steps = 0;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string word;
    words >> word;
    if (word == "push" || word == "mean") {
      rows = Numbers<uint32_t>(words);
      if (word == "mean") mean = means.Take();
      continue;
    }
    const Values values = Numbers<float>(words);
    if (word == "gradient") means.Add({3, rows, values});
    if (word == "values") {
      EXPECT_EQ(ByRowOf(mean), ByRowOf({3, rows, values}));
      ++steps;
    }
  }
  EXPECT_EQ(steps, 6);
}

TEST(RowMeans, TakeAnyNumberOfRowsStepAfterStep) {
  std::mt19937 random(3);
  RowMeans means;
  for (int step = 0; step < 5; ++step) {
    std::map<uint32_t, std::pair<float, int>> expected;
    for (int push = 0; push < 20; ++push) {
      Rows rows(5000);
      std::iota(rows.begin(), rows.end(), 4'000'000'000);
      std::shuffle(rows.begin(), rows.end(), random);
      rows.resize(random() % 400);
      Values values(rows.size());
      for (size_t i = 0; i < rows.size(); ++i) {
        values[i] = static_cast<float>(random() % 1000);
        expected[rows[i]].first += values[i];
        ++expected[rows[i]].second;
      }
      means.Add({1, rows, values});
    }
    const ByRow got = ByRowOf(means.Take());
    ASSERT_EQ(got.size(), expected.size());
    for (const auto& [row, sum] : expected) {
      ASSERT_EQ(got.at(row), Values{sum.first / static_cast<float>(sum.second)});
    }
  }
}

}  // namespace
}  // namespace tfdist::runtime
