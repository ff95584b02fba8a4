// The optimizers beside TensorFlow's own numbers on the same gradients: testdata/make_expected.py.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/testing/tensorflow_cases.h"
#include "runtime/update/optimizer.h"
#include "runtime/update/row_summer.h"

namespace tfdist::runtime {
namespace {

using testing::Lines;
using testing::Numbers;
using Case = testing::TensorFlowCase;

// How many floats further: 0 for the same one, 1 for its neighbour.
int64_t UlpsBetween(float a, float b) {
  const auto place = [](float value) {
    const int32_t bits = std::bit_cast<int32_t>(value);
    return int64_t{bits < 0 ? INT32_MIN - bits : bits};
  };
  return std::abs(place(a) - place(b));
}

int64_t MaxUlps(const std::vector<float>& got, const std::string& expected_text) {
  const std::vector<float> expected = Numbers<float>(expected_text);
  EXPECT_EQ(got.size(), expected.size());
  int64_t worst = 0;
  for (size_t i = 0; i < std::min(got.size(), expected.size()); ++i) {
    worst = std::max(worst, UlpsBetween(got[i], expected[i]));
  }
  return worst;
}

class ReplayedVariable {
 public:
  explicit ReplayedVariable(const Case& start)
      : optimizer_(ParseOptimizer(start.start.at("optimizer"))),
        width_(std::stoul(start.start.at("width"))),
        values_(Numbers<float>(start.start.at("initial"))),
        state_(optimizer_.initial_state()) {
    for (size_t i = 0; i < optimizer_.slot_count(); ++i) {
      slots_[i].assign(values_.size(), optimizer_.initial_slot_value());
    }
  }

  void Push(const Lines& push) {
    const std::vector<float> gradient = Numbers<float>(push.at("gradient"));
    const VariableRange all = {values_, {slots_[0], slots_[1]}};
    const OptimizerStep step = optimizer_.NextStep(state_);
    const auto ids = push.find("ids");
    if (ids == push.end()) {
      optimizer_.Apply(step, all, gradient);
      return;
    }
    const std::vector<uint32_t> rows = Numbers<uint32_t>(ids->second);
    RowsGradient by_row = {width_, rows, gradient};
    if (optimizer_.sum_repeated_rows()) by_row = summer_.Sum(by_row);
    optimizer_.ApplyRows(step, all, 0, by_row);
  }

  [[nodiscard]] const Optimizer& optimizer() const { return optimizer_; }
  [[nodiscard]] const std::vector<float>& values() const { return values_; }
  [[nodiscard]] const std::vector<float>& slot(size_t i) const { return slots_[i]; }

 private:
  Optimizer optimizer_;
  size_t width_;
  std::vector<float> values_;
  std::array<std::vector<float>, 2> slots_;
  OptimizerState state_;
  RowSummer summer_;
};

// Bit for bit, but for Adagrad where Eigen has a whole vector of 8 floats: its reciprocal square
// root is an approximation, up to 4 floats off in the change of a value.
int64_t AllowedUlps(const Lines& start) {
  const bool whole_vectors = std::stoul(start.at("width")) >= 8;
  return whole_vectors && start.at("optimizer").starts_with("adagrad") ? 4 : 0;
}

TEST(TensorFlow, ComputesTheSameFromTheSameGradients) {
  const std::vector<Case> cases = testing::ReadTensorFlowCases();
  ASSERT_EQ(cases.size(), 20U);
  for (const Case& each : cases) {
    SCOPED_TRACE(each.start.at("case") + " " + each.start.at("optimizer") + ", width " +
                 each.start.at("width"));
    ASSERT_EQ(each.steps.size(), 5U);
    ReplayedVariable variable(each);
    for (const Lines& step : each.steps) {
      variable.Push(step);
      EXPECT_LE(MaxUlps(variable.values(), step.at("values")), AllowedUlps(each.start));
      for (size_t i = 0; i < variable.optimizer().slot_count(); ++i) {
        EXPECT_EQ(MaxUlps(variable.slot(i), step.at("slot" + std::to_string(i))), 0);
      }
    }
  }
}

}  // namespace
}  // namespace tfdist::runtime
