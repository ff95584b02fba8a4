// The cases of testdata/expected.txt, which TensorFlow computed; testdata/make_expected.py says how
// to read them.
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "base/testing/test_paths.h"
#include "runtime/placement/names.h"
#include "runtime/placement/placement.h"

namespace tfdist::runtime {
namespace {

using Words = std::vector<std::string>;

Words SplitAt(const std::string& text, char separator) {
  std::istringstream stream(text);
  Words words;
  for (std::string word; std::getline(stream, word, separator);) words.push_back(word);
  return words;
}

struct Case {
  Words given;
  Words expected;
};

Case ReadCase(const std::string& line) {
  const size_t equals = line.find(" = ");
  return {SplitAt(line.substr(0, equals), ' '), SplitAt(line.substr(equals + 3), ' ')};
}

// Runs `check` on the cases of that kind, and expects that there are some.
void ForEachCase(const std::string& kind, const std::function<void(const Case&)>& check) {
  std::ifstream file(TestSourceDir() / "runtime/placement/testdata/expected.txt");
  size_t cases = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(kind + " ", 0) != 0) continue;
    SCOPED_TRACE(line);
    check(ReadCase(line));
    ++cases;
  }
  EXPECT_GT(cases, 10U) << "of kind " << kind;
}

std::vector<uint32_t> ParseShape(const std::string& text) {
  std::vector<uint32_t> shape;
  if (text == "scalar") return shape;
  for (const std::string& size : SplitAt(text, 'x')) {
    shape.push_back(static_cast<uint32_t>(std::stoul(size)));
  }
  return shape;
}

Variable MakeVariable(const std::string& element_bytes, const std::string& shape,
                      const std::string& partitioner) {
  return {.spec = {"v", ParseShape(shape)},
          .partitioner = ParsePartitioner(partitioner),
          .element_bytes = static_cast<uint32_t>(std::stoul(element_bytes))};
}

TEST(TensorFlow, SplitsVariablesIntoTheSameParts) {
  ForEachCase("split", [](const Case& one) {
    const Variable variable = MakeVariable(one.given.at(2), one.given.at(3), one.given.at(1));
    const Placement placement = Place({variable}, 1, Strategy::kRoundRobin);
    Words rows;
    for (const Part& part : placement.variables.at(0).parts) {
      rows.push_back(std::to_string(part.spec.shape.at(0)));
    }
    EXPECT_EQ(rows, one.expected);
  });
}

std::string AddressText(const RowAddress& address) {
  return std::to_string(address.part) + ":" + std::to_string(address.row);
}

TEST(TensorFlow, FindsIdsInTheSamePartsAndRows) {
  ForEachCase("lookup", [](const Case& one) {
    const RowMap rows(std::stoul(one.given.at(2)), std::stoul(one.given.at(3)),
                      ParseLookupRule(one.given.at(1)));
    for (size_t i = 0; i < one.expected.size(); ++i) {
      const Words parts = SplitAt(one.expected[i], '>');
      const int64_t id = parts.size() == 2 ? std::stol(parts[0]) : static_cast<int64_t>(i);
      EXPECT_EQ(AddressText(rows.Find(id)), parts.back()) << "id " << id;
    }
  });
}

Variable ParseVariable(const std::string& text) {
  const Words fields = SplitAt(text, '/');
  Variable variable = MakeVariable(fields.at(0), fields.at(1), fields.at(2));
  if (fields.at(3) != "-") variable.server = std::stoul(fields.at(3));
  return variable;
}

std::string ServersText(const PlacedVariable& variable) {
  std::string text;
  for (const Part& part : variable.parts) {
    text += (text.empty() ? "" : ",") + std::to_string(part.server);
  }
  return text;
}

TEST(TensorFlow, PlacesPartsOnTheSameServers) {
  ForEachCase("place", [](const Case& one) {
    std::vector<Variable> variables;
    for (size_t i = 3; i < one.given.size(); ++i) variables.push_back(ParseVariable(one.given[i]));
    const Placement placement =
        Place(variables, std::stoul(one.given.at(2)), ParseStrategy(one.given.at(1)));
    Words servers;
    for (const PlacedVariable& variable : placement.variables) {
      servers.push_back(ServersText(variable));
    }
    EXPECT_EQ(servers, one.expected);
  });
}

}  // namespace
}  // namespace tfdist::runtime
