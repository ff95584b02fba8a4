#include "runtime/update/optimizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <numeric>
#include <random>
#include <string>
#include <vector>

namespace tfdist::runtime {
namespace {

std::vector<float> RandomFloats(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  std::generate(values.begin(), values.end(), [&] { return normal(random); });
  return values;
}

struct Variable {
  Variable(const Optimizer& optimizer, size_t count)
      : values(RandomFloats(count, 1)), state(optimizer.initial_state()) {
    for (size_t i = 0; i < optimizer.slot_count(); ++i) {
      slots[i].assign(count, optimizer.initial_slot_value());
    }
  }

  VariableRange Range(size_t begin, size_t count) {
    VariableRange range = {std::span(values).subspan(begin, count), {}};
    for (size_t i = 0; i < slots.size(); ++i) {
      if (!slots[i].empty()) range.slots[i] = std::span(slots[i]).subspan(begin, count);
    }
    return range;
  }
  VariableRange All() { return Range(0, values.size()); }

  std::vector<float> values;
  std::array<std::vector<float>, 2> slots;
  OptimizerState state;
};

void ExpectSame(const Variable& a, const Variable& b) {
  EXPECT_EQ(a.values, b.values);
  EXPECT_EQ(a.slots, b.slots);
}

void ExpectNear(const Variable& a, const Variable& b) {
  for (size_t i = 0; i < a.values.size(); ++i) {
    EXPECT_NEAR(a.values[i], b.values[i], 1e-6) << i;
    for (size_t slot = 0; slot < 2 && !a.slots[slot].empty(); ++slot) {
      EXPECT_NEAR(a.slots[slot][i], b.slots[slot][i], 1e-6) << i;
    }
  }
}

class EachOptimizer : public ::testing::TestWithParam<std::string> {
 protected:
  [[nodiscard]] bool IsLazy() const { return optimizer_.spec().lazy; }
  [[nodiscard]] bool IsAdam() const { return optimizer_.spec().kind == OptimizerKind::kAdam; }

  const Optimizer optimizer_{ParseOptimizer(GetParam())};
};

INSTANTIATE_TEST_SUITE_P(, EachOptimizer,
                         ::testing::Values("sgd:learning_rate=0.1", "momentum:learning_rate=0.1",
                                           "momentum:learning_rate=0.1,use_nesterov=true",
                                           "adagrad:learning_rate=0.1", "adam:learning_rate=0.1",
                                           "adam:learning_rate=0.1,lazy=true"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace_if(
                               name.begin(), name.end(), [](char c) { return !std::isalnum(c); },
                               '_');
                           return name;
                         });

TEST_P(EachOptimizer, GivesTheSameInChunksAsAtOnce) {
  const size_t count = 1003;
  for (const size_t chunk : {1, 3, 8, 250, 1000}) {
    Variable whole(optimizer_, count);
    Variable chunked(optimizer_, count);
    for (unsigned push = 0; push < 3; ++push) {
      const std::vector<float> gradient = RandomFloats(count, 10 + push);
      optimizer_.Apply(optimizer_.NextStep(whole.state), whole.All(), gradient);
      const OptimizerStep step = optimizer_.NextStep(chunked.state);
      for (size_t begin = 0; begin < count; begin += chunk) {
        const size_t size = std::min(chunk, count - begin);
        optimizer_.Apply(step, chunked.Range(begin, size),
                         std::span(gradient).subspan(begin, size));
      }
    }
    ExpectSame(chunked, whole);
  }
}

TEST_P(EachOptimizer, GivesTheSameInAnotherArrayAndKeepsTheOldOne) {
  const size_t count = 77;
  Variable in_place(optimizer_, count);
  Variable copied(optimizer_, count);
  const std::vector<float> before = copied.values;
  const std::vector<float> gradient = RandomFloats(count, 3);
  optimizer_.Apply(optimizer_.NextStep(in_place.state), in_place.All(), gradient);

  std::vector<float> after(count);
  VariableRange range = copied.All();
  range.values = after;
  optimizer_.ApplyFrom(optimizer_.NextStep(copied.state), copied.values, range, gradient);
  EXPECT_EQ(copied.values, before);
  copied.values = after;
  ExpectSame(copied, in_place);
}

TEST_P(EachOptimizer, GivesForAllRowsWhatADenseGradientGives) {
  const size_t rows = 60;
  const size_t width = 17;
  Variable dense(optimizer_, rows * width);
  Variable by_row(optimizer_, rows * width);
  std::vector<uint32_t> all_rows(rows);
  std::iota(all_rows.begin(), all_rows.end(), 0);
  for (unsigned push = 0; push < 3; ++push) {
    const std::vector<float> gradient = RandomFloats(rows * width, 20 + push);
    optimizer_.Apply(optimizer_.NextStep(dense.state), dense.All(), gradient);
    optimizer_.ApplyRows(optimizer_.NextStep(by_row.state), by_row.All(), 0,
                         {width, all_rows, gradient});
  }
  // In these two TensorFlow's sums for rows are written otherwise, and so are ours.
  if (IsAdam() || optimizer_.spec().use_nesterov) {
    ExpectNear(by_row, dense);
  } else {
    ExpectSame(by_row, dense);
  }
}

TEST_P(EachOptimizer, GivesTheSameForRowsInChunksAsAtOnce) {
  const size_t rows = 40;
  const size_t width = 5;
  const std::vector<uint32_t> named = {2, 3, 11, 19, 20, 38, 39};  // none in rows 4 to 7
  Variable whole(optimizer_, rows * width);
  Variable chunked(optimizer_, rows * width);
  for (unsigned push = 0; push < 3; ++push) {
    const std::vector<float> gradient = RandomFloats(named.size() * width, 30 + push);
    optimizer_.ApplyRows(optimizer_.NextStep(whole.state), whole.All(), 0,
                         {width, named, gradient});
    const OptimizerStep step = optimizer_.NextStep(chunked.state);
    size_t done = 0;
    for (uint32_t first_row = 0; first_row < rows; first_row += 4) {
      size_t count = 0;
      while (done + count < named.size() && named[done + count] < first_row + 4) ++count;
      optimizer_.ApplyRows(step, chunked.Range(first_row * width, 4 * width), first_row,
                           {width, std::span(named).subspan(done, count),
                            std::span(gradient).subspan(done * width, count * width)});
      done += count;
    }
  }
  ExpectSame(chunked, whole);
}

TEST_P(EachOptimizer, MovesRowsThatAreNotNamedWithAdamAlone) {
  const size_t width = 3;
  Variable table(optimizer_, 2 * width);
  const std::vector<float> gradient = {1, -2, 3};
  const std::vector<uint32_t> first = {0};
  const std::vector<uint32_t> second = {1};
  optimizer_.ApplyRows(optimizer_.NextStep(table.state), table.All(), 0, {width, first, gradient});
  const Variable before = table;
  optimizer_.ApplyRows(optimizer_.NextStep(table.state), table.All(), 0, {width, second, gradient});
  for (size_t i = 0; i < width; ++i) {
    EXPECT_EQ(table.values[i] == before.values[i], !IsAdam() || IsLazy());
    EXPECT_NE(table.values[width + i], before.values[width + i]);
  }
}

TEST_P(EachOptimizer, LeavesTheThreadsFloatsAsTheyWere) {
  Variable variable(optimizer_, 16);
  optimizer_.Apply(optimizer_.NextStep(variable.state), variable.All(), RandomFloats(16, 4));
  volatile float small = 1.2e-38F;
  small = small / 2;
  EXPECT_GT(small, 0.0F);  // not flushed here
}

TEST(Optimizer, SubtractsTheGradientTimesTheLearningRate) {
  const Optimizer optimizer({.kind = OptimizerKind::kSgd, .learning_rate = 0.25F});
  std::vector<float> variable = {1.0F, -2.0F, 0.5F};
  const std::vector<float> gradient = {0.5F, 4.0F, 0.0F};
  OptimizerState state = optimizer.initial_state();
  optimizer.Apply(optimizer.NextStep(state), {variable, {}}, gradient);
  EXPECT_EQ(variable, (std::vector<float>{0.875F, -3.0F, 0.5F}));
}

TEST(Optimizer, AddsRepeatedRowsOneByOneWithSgd) {
  const Optimizer optimizer({.kind = OptimizerKind::kSgd, .learning_rate = 1});
  EXPECT_FALSE(optimizer.sum_repeated_rows());
  std::vector<float> table = {0, 0, 0};
  const std::vector<uint32_t> rows = {102, 100, 102};
  const std::vector<float> gradient = {1, 2, 4};
  OptimizerState state;
  optimizer.ApplyRows(optimizer.NextStep(state), {table, {}}, 100, {1, rows, gradient});
  EXPECT_EQ(table, (std::vector<float>{-2, 0, -5}));
}

TEST(Optimizer, CountsAdamsPushesInTheStateOfTheVariable) {
  const Optimizer optimizer(
      {.kind = OptimizerKind::kAdam, .learning_rate = 0.1F, .beta1 = 0.5F, .beta2 = 0.75F});
  OptimizerState state = optimizer.initial_state();
  EXPECT_EQ(state.beta1_power, 0.5F);
  EXPECT_EQ(state.beta2_power, 0.75F);
  optimizer.NextStep(state);
  optimizer.NextStep(state);
  EXPECT_EQ(state.beta1_power, 0.125F);
  EXPECT_EQ(state.beta2_power, 0.421875F);
}

TEST(Optimizer, LetsMomentumEndAtZeroInsteadOfSubnormalNumbers) {
  const Optimizer optimizer({.kind = OptimizerKind::kMomentum, .learning_rate = 0.1F});
  std::vector<float> values(9, 1);
  std::vector<float> momentum(9, 1.2e-38F);
  OptimizerState state;
  optimizer.Apply(optimizer.NextStep(state), {values, {momentum, {}}}, std::vector<float>(9, 0));
  EXPECT_EQ(momentum, std::vector<float>(9, 0));
}

TEST(OptimizerDeathTest, StopsAtARowOutsideOfItsRange) {
  const Optimizer optimizer({.kind = OptimizerKind::kSgd, .learning_rate = 1});
  std::vector<float> table(12);
  const std::vector<float> gradient(3);
  OptimizerState state;
  for (const uint32_t row : {99U, 104U}) {
    const std::vector<uint32_t> rows = {row};
    EXPECT_DEATH(
        optimizer.ApplyRows(optimizer.NextStep(state), {table, {}}, 100, {3, rows, gradient}),
        "begin \\+ width <= named.end");
  }
}

}  // namespace
}  // namespace tfdist::runtime
