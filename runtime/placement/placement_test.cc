#include "runtime/placement/placement.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "runtime/testing/expect_error.h"

namespace tfdist::runtime {
namespace {

using testing::ExpectError;
using Servers = std::vector<std::vector<size_t>>;  // of each variable's parts

Servers ServersOf(const Placement& placement) {
  Servers servers;
  for (const PlacedVariable& variable : placement.variables) {
    std::vector<size_t>& of_variable = servers.emplace_back();
    for (const Part& part : variable.parts) of_variable.push_back(part.server);
  }
  return servers;
}

Variable Dense(std::vector<uint32_t> shape) { return {.spec = {"dense", std::move(shape)}}; }

Variable Table(std::vector<uint32_t> shape, LookupRule lookup, Partitioner partitioner) {
  return {.spec = {"table", std::move(shape)}, .lookup = lookup, .partitioner = partitioner};
}

std::vector<Variable> TwoLayers() {
  return {Dense({1000, 1000}), Dense({1000}), Dense({1000, 1000}), Dense({1000})};
}

TEST(RoundRobin, GoesRoundTheServersInOrderOfCreation) {
  const std::vector<Variable> variables(3, Dense({1}));
  EXPECT_EQ(ServersOf(Place(variables, 2, Strategy::kRoundRobin)), (Servers{{0}, {1}, {0}}));
  EXPECT_EQ(ServersOf(Place(variables, 1, Strategy::kRoundRobin)), (Servers{{0}, {0}, {0}}));
}

TEST(RoundRobin, LoadsServersUnevenlyWhenSizesAlternate) {
  EXPECT_EQ(Place(TwoLayers(), 2, Strategy::kRoundRobin).server_bytes,
            (std::vector<uint64_t>{8'000'000, 8'000}));
}

TEST(RoundRobin, LeavesServersEmptyWhenThereAreTooFewVariables) {
  const Placement placement = Place({Dense({2})}, 3, Strategy::kRoundRobin);
  EXPECT_EQ(placement.server_bytes, (std::vector<uint64_t>{8, 0, 0}));
}

TEST(RoundRobin, GivesEachPartATurn) {
  const std::vector<Variable> variables = {
      Dense({7}), Table({10, 2}, LookupRule::kDiv, FixedParts{2}), Dense({7}),
      Table({9, 4}, LookupRule::kDiv, FixedParts{4})};
  EXPECT_EQ(ServersOf(Place(variables, 3, Strategy::kRoundRobin)),
            (Servers{{0}, {1, 2}, {0}, {1, 2, 0, 1}}));
}

TEST(Greedy, BalancesBytes) {
  const Placement placement = Place(TwoLayers(), 2, Strategy::kGreedy);
  EXPECT_EQ(ServersOf(placement), (Servers{{0}, {1}, {1}, {0}}));
  EXPECT_EQ(placement.server_bytes, (std::vector<uint64_t>{4'004'000, 4'004'000}));
}

TEST(Greedy, MovesNothingAfterwards) {
  EXPECT_EQ(Place({Dense({}), Dense({1}), Dense({10})}, 2, Strategy::kGreedy).server_bytes,
            (std::vector<uint64_t>{44, 4}));
  EXPECT_EQ(Place({Dense({10}), Dense({1}), Dense({})}, 2, Strategy::kGreedy).server_bytes,
            (std::vector<uint64_t>{40, 8}));
}

// tf.contrib.training's own tests: byte sizes 16, 8, 16, 12, and a scalar.
TEST(Greedy, PlacesAsTensorFlowsTestsExpect) {
  EXPECT_EQ(ServersOf(Place({Dense({2, 2}), Dense({2, 1}), Dense({2, 2}), Dense({1, 3})}, 2,
                            Strategy::kGreedy)),
            (Servers{{0}, {1}, {1}, {0}}));
  EXPECT_EQ(ServersOf(Place({Dense({})}, 2, Strategy::kGreedy)), (Servers{{0}}));
}

TEST(Greedy, CountsBytesOfTheElementType) {
  Variable wide = Dense({3});
  wide.element_bytes = 8;
  Variable narrow = Dense({3});
  narrow.element_bytes = 1;
  EXPECT_EQ(Place({wide, narrow}, 2, Strategy::kGreedy).server_bytes,
            (std::vector<uint64_t>{24, 3}));
}

TEST(Place, PutsAVariableWhereTheProgramSaysButLetsItTakeItsTurn) {
  std::vector<Variable> variables(3, Dense({5}));
  variables[1].server = 2;
  EXPECT_EQ(ServersOf(Place(variables, 3, Strategy::kRoundRobin)), (Servers{{0}, {2}, {2}}));
  const Placement greedy = Place(variables, 3, Strategy::kGreedy);
  EXPECT_EQ(ServersOf(greedy), (Servers{{0}, {2}, {2}}));
  EXPECT_EQ(greedy.server_bytes, (std::vector<uint64_t>{20, 0, 40}));
}

TEST(Place, DescribesThePartsOfADivTable) {
  const Placement placement =
      Place({Table({10, 3}, LookupRule::kDiv, FixedParts{4})}, 2, Strategy::kRoundRobin);
  const std::vector<Part> expected = {{{"table/part_0", {3, 3}}, {0, 1, 3}, 36, 0},
                                      {{"table/part_1", {3, 3}}, {3, 1, 3}, 36, 1},
                                      {{"table/part_2", {2, 3}}, {6, 1, 2}, 24, 0},
                                      {{"table/part_3", {2, 3}}, {8, 1, 2}, 24, 1}};
  EXPECT_EQ(placement.variables.at(0).parts, expected);
}

TEST(Place, DescribesThePartsOfAModTable) {
  const Placement placement =
      Place({Table({5, 2}, LookupRule::kMod, FixedParts{2})}, 2, Strategy::kRoundRobin);
  const std::vector<Part> expected = {{{"table/part_0", {3, 2}}, {0, 2, 3}, 24, 0},
                                      {{"table/part_1", {2, 2}}, {1, 2, 2}, 16, 1}};
  EXPECT_EQ(placement.variables.at(0).parts, expected);
  EXPECT_EQ(placement.variables.at(0).rows.Find(3), (RowAddress{1, 1}));
}

TEST(Place, KeepsTheNameOfAVariableInOnePart) {
  const Placement placement =
      Place({Table({5, 2}, LookupRule::kDiv, FixedParts{1})}, 2, Strategy::kRoundRobin);
  EXPECT_EQ(placement.variables.at(0).parts.at(0).spec, (TensorSpec{"table", {5, 2}}));
}

TEST(Place, NeverSplitsAScalar) {
  Variable scalar = Dense({});
  scalar.partitioner = FixedParts{2};
  const Placement placement = Place({scalar}, 2, Strategy::kRoundRobin);
  const std::vector<Part> expected = {{{"dense", {}}, {0, 1, 1}, 4, 0}};
  EXPECT_EQ(placement.variables.at(0).parts, expected);
}

TEST(Place, AllowsAsManyPartsAsServersUnderAMinimumSize) {
  const std::vector<Variable> table = {
      Table({1000, 64}, LookupRule::kDiv, MinPartSize{1024, std::nullopt})};
  EXPECT_EQ(Place(table, 5, Strategy::kRoundRobin).variables.at(0).parts.size(), 5U);
}

TEST(Place, RefusesImpossibleVariablesByName) {
  const auto expect_error = [](const Variable& variable, const std::string& words) {
    ExpectError([&] { Place({variable}, 2, Strategy::kRoundRobin); }, Phase::kRun, words);
  };
  expect_error(Dense({3, 0}), "variable dense [3,0]: a dimension of 0");
  expect_error(Dense({1U << 31, 1U << 31}), "variable dense [2147483648,2147483648]: too large");
  expect_error(Table({}, LookupRule::kDiv, Unsplit{}), "variable table []: a table without rows");
  expect_error(Table({9, 1}, LookupRule::kDiv, FixedParts{0}),
               "variable table [9,1]: a partitioner with 0 parts");
  expect_error(Table({1 << 20, 1}, LookupRule::kDiv, MaxPartSize{4, {}}),
               "variable table [1048576,1]: 1048576 parts");
  Variable elsewhere = Dense({1});
  elsewhere.server = 2;
  expect_error(elsewhere, "variable dense [1]: placed on server 2 of 2");
  Variable empty = Dense({1});
  empty.element_bytes = 0;
  expect_error(empty, "variable dense [1]: elements of 0 bytes");
}

TEST(Place, NeedsAServer) {
  ExpectError([] { Place({}, 0, Strategy::kGreedy); }, Phase::kRun, "no parameter server");
}

TEST(PartsOfServers, ListsEachPartAtTheServerThatHoldsIt) {
  const Placement placement = Place({Dense({7}), Table({10, 2}, LookupRule::kDiv, FixedParts{3})},
                                    3, Strategy::kRoundRobin);
  EXPECT_EQ(PartsOfServers(placement),
            (std::vector<std::vector<PartId>>{{{0, 0}, {1, 2}}, {{1, 0}}, {{1, 1}}}));
}

Variable RandomVariable(std::mt19937& random) {
  Variable variable;
  for (uint32_t i = random() % 4; i > 0; --i) variable.spec.shape.push_back(1 + random() % 50);
  if (!variable.spec.shape.empty() && random() % 2 == 0) {
    variable.lookup = random() % 2 == 0 ? LookupRule::kDiv : LookupRule::kMod;
  }
  const uint32_t size = 1 + random() % 20'000;
  const uint32_t most = 1 + random() % 9;
  const std::vector<Partitioner> partitioners = {Unsplit{}, FixedParts{most},
                                                 MinPartSize{size, most}, MaxPartSize{size, {}}};
  variable.partitioner = partitioners[random() % partitioners.size()];
  return variable;
}

// Every row in one part exactly, the bytes those of the rows.
void ExpectWhole(const Variable& variable, const PlacedVariable& placed) {
  const bool scalar = variable.spec.shape.empty();
  std::vector<int> seen(scalar ? 1 : variable.spec.shape.front());
  uint64_t bytes = 0;
  for (const Part& part : placed.parts) {
    for (uint32_t row = 0; row < part.rows.count; ++row) {
      ++seen.at(part.rows.first + row * part.rows.step);
    }
    EXPECT_EQ(part.bytes, ElementCount(part.spec) * variable.element_bytes);
    bytes += part.bytes;
  }
  EXPECT_EQ(seen, std::vector<int>(seen.size(), 1)) << ToString(variable.spec);
  EXPECT_EQ(bytes, ElementCount(variable.spec) * variable.element_bytes);
}

TEST(Place, CoversEveryRowOfRandomVariablesOnce) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<Variable> variables(1 + random() % 8);
    for (Variable& variable : variables) variable = RandomVariable(random);
    const size_t servers = 1 + random() % 6;
    const Strategy strategy = random() % 2 == 0 ? Strategy::kRoundRobin : Strategy::kGreedy;
    const Placement placement = Place(variables, servers, strategy);
    uint64_t bytes = 0;
    for (size_t i = 0; i < variables.size(); ++i) {
      ExpectWhole(variables[i], placement.variables.at(i));
      bytes += ElementCount(variables[i].spec) * variables[i].element_bytes;
    }
    EXPECT_EQ(
        std::accumulate(placement.server_bytes.begin(), placement.server_bytes.end(), uint64_t{0}),
        bytes);
  }
}

}  // namespace
}  // namespace tfdist::runtime
