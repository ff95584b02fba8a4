// The optimizers beside TensorFlow's own numbers on the same gradients: testdata/make_expected.py.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "runtime/update/optimizer.h"
#include "runtime/update/row_summer.h"

namespace tfdist::runtime {
namespace {

// The words and values of a line of expected.txt.
using Lines = std::map<std::string, std::string>;

struct Case {
  Lines start;               // case, optimizer, rows, width, initial
  std::vector<Lines> steps;  // ids, gradient, values, slot0, slot1
};

std::vector<Case> ReadCases() {
  std::ifstream file(TFDIST_UPDATE_TESTDATA "/expected.txt");
  std::vector<Case> cases;
  std::string line;
  while (std::getline(file, line)) {
    if (line.empty() || line[0] == '#') continue;
    const size_t space = std::min(line.find(' '), line.size());
    const std::string word = line.substr(0, space);
    if (word == "case") cases.emplace_back();
    if (cases.empty()) break;
    if (word == "step") {
      cases.back().steps.emplace_back();
    } else {
      Lines& lines = cases.back().steps.empty() ? cases.back().start : cases.back().steps.back();
      lines[word] = line.substr(std::min(space + 1, line.size()));
    }
  }
  return cases;
}

template <typename Number>
std::vector<Number> Numbers(const std::string& text) {
  std::vector<Number> numbers;
  std::istringstream words(text);
  for (Number number = 0; words >> number;) numbers.push_back(number);
  EXPECT_TRUE(words.eof()) << text;
  return numbers;
}

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

class Variable {
 public:
  explicit Variable(const Case& start)
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
  const std::vector<Case> cases = ReadCases();
  ASSERT_EQ(cases.size(), 20U);
  for (const Case& each : cases) {
    SCOPED_TRACE(each.start.at("case") + " " + each.start.at("optimizer") + ", width " +
                 each.start.at("width"));
    ASSERT_EQ(each.steps.size(), 5U);
    Variable variable(each);
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
