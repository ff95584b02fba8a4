// Which server holds which part of which variable: a value that every task computes for itself, the
// same from the same list. TensorFlow's rules: replica_device_setter
// (python/training/device_setter.py) and ParameterServerStrategyV2
// (python/distribute/parameter_server_strategy_v2.py).
//
//   const Variable bias = {.spec = {"bias", {10}}};
//   const Variable words = {.spec = {"words", {100'000, 16}},
//                           .lookup = LookupRule::kDiv,
//                           .partitioner = FixedParts{4}};
//   const Placement placement = Place({bias, words}, 3, Strategy::kRoundRobin);
//   placement.variables[1].parts[2].server;         // 0: bias took 0, words/part_0 1, part_1 2
//   placement.variables[1].rows.Find(60'000).part;  // 2
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/common/tensor.h"
#include "runtime/placement/partitioner.h"
#include "runtime/placement/row_map.h"

namespace tfdist::runtime {

enum class Strategy {
  kRoundRobin,  // part after part in the order of creation
  kGreedy,      // each part to the server with the fewest bytes so far, the lowest of several
};

struct Variable {
  TensorSpec spec;
  // Present: a table, of which rows are asked for by id. Absent: dense, always as a whole.
  std::optional<LookupRule> lookup = std::nullopt;
  Partitioner partitioner = Unsplit{};
  uint32_t element_bytes = sizeof(float);
  // Present: held there whatever the strategy says. It takes its turn all the same, and under
  // kGreedy its bytes count where the strategy would have put it, as TensorFlow asks the strategy
  // first. What belongs to a variable, as an optimizer's slots do, lies beside it and is not
  // listed.
  std::optional<size_t> server = std::nullopt;
};

struct Part {
  TensorSpec spec;  // "<name>/part_<i>" of a variable in several parts, else as the variable
  RowSet rows;      // of the variable; a scalar is one row
  uint64_t bytes = 0;
  size_t server = 0;

  bool operator==(const Part&) const = default;
};

struct PlacedVariable {
  RowMap rows;
  std::vector<Part> parts;  // at least one; part i holds what `rows` says
};

struct Placement {
  std::vector<PlacedVariable> variables;  // in the order of creation, as given
  std::vector<uint64_t> server_bytes;     // what each server holds
};

// `variables` in the order of creation, the same in every task. A variable without dimensions is
// never split. Throws Error(kRun) that names the variable: a dimension of 0, a table without
// dimensions, too large, a server or a number of parts that there cannot be.
Placement Place(const std::vector<Variable>& variables, size_t server_count, Strategy strategy);

struct PartId {
  size_t variable = 0;  // position in Placement::variables
  size_t part = 0;

  bool operator==(const PartId&) const = default;
};

// For each server, the parts it holds, in the order of creation.
std::vector<std::vector<PartId>> PartsOfServers(const Placement& placement);

}  // namespace tfdist::runtime
