// TensorFlow's own numbers: what its optimizers make of some gradients
// (update/testdata/make_expected.py).
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "base/testing/test_paths.h"

namespace tfdist::runtime::testing {

// The words and values of a line of expected.txt.
using Lines = std::map<std::string, std::string>;

struct TensorFlowCase {
  Lines start;               // case, optimizer, rows, width, initial
  std::vector<Lines> steps;  // ids, gradient, values, slot0, slot1
};

inline std::vector<TensorFlowCase> ReadTensorFlowCases() {
  std::ifstream file(TestSourceDir() / "runtime/update/testdata/expected.txt");
  std::vector<TensorFlowCase> cases;
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

}  // namespace tfdist::runtime::testing
