#include "runtime/placement/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.h"

namespace tfdist::runtime {
namespace {

[[noreturn]] void Refuse(const Variable& variable, const std::string& why,
                         const std::string& remedy) {
  throw Error(Phase::kRun, fmt::format("variable {}: {}", ToString(variable.spec), why), remedy);
}

// Chooses servers one part after the other.
class Chooser {
 public:
  Chooser(Strategy strategy, size_t server_count) : strategy_(strategy), loads_(server_count) {}

  size_t Next(uint64_t bytes) {
    const size_t server = strategy_ == Strategy::kGreedy ? LeastLoaded() : turn_++ % loads_.size();
    loads_[server] += bytes;
    return server;
  }

 private:
  [[nodiscard]] size_t LeastLoaded() const {
    return static_cast<size_t>(std::min_element(loads_.begin(), loads_.end()) - loads_.begin());
  }

  Strategy strategy_;
  std::vector<uint64_t> loads_;
  size_t turn_ = 0;
};

// A scalar is one row.
uint64_t RowsIn(const Variable& variable) {
  return variable.spec.shape.empty() ? 1 : variable.spec.shape.front();
}

// Throws when the whole variable has more bytes than 62 bits can say: sums of several must fit too.
uint64_t RowBytesIn(const Variable& variable) {
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max() / 4;
  uint64_t row = variable.element_bytes;
  uint64_t whole = row;
  for (size_t i = 0; i < variable.spec.shape.size(); ++i) {
    const uint64_t dimension = variable.spec.shape[i];
    if (whole > kMost / dimension) Refuse(variable, "too large", "use smaller dimensions");
    whole *= dimension;
    if (i > 0) row *= dimension;
  }
  return row;
}

void Check(const Variable& variable, size_t server_count) {
  const std::vector<uint32_t>& shape = variable.spec.shape;
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) {
    Refuse(variable, "a dimension of 0", "give every dimension at least one element");
  }
  if (variable.element_bytes == 0) {
    Refuse(variable, "elements of 0 bytes", "give element_bytes, 4 for float32");
  }
  if (shape.empty() && variable.lookup) {
    Refuse(variable, "a table without rows to look up", "give it a shape [rows, ...]");
  }
  if (variable.server && *variable.server >= server_count) {
    Refuse(variable, fmt::format("placed on server {} of {}", *variable.server, server_count),
           fmt::format("servers go from 0 to {}", server_count - 1));
  }
}

RowMap RowMapOf(const Variable& variable, uint64_t row_bytes, size_t server_count) {
  const uint64_t rows = RowsIn(variable);
  try {
    const uint64_t parts = variable.spec.shape.empty()
                               ? 1
                               : PartCount(variable.partitioner, rows, row_bytes, server_count);
    return RowMap(rows, parts, variable.lookup.value_or(LookupRule::kDiv));
  } catch (const Error& error) {
    Refuse(variable, error.cause(), error.remedy());
  }
}

TensorSpec SpecOfPart(const TensorSpec& whole, const RowMap& rows, uint32_t part) {
  if (rows.parts() == 1) return whole;
  TensorSpec spec{fmt::format("{}/part_{}", whole.name, part), whole.shape};
  spec.shape.front() = rows.RowsOf(part).count;
  return spec;
}

PlacedVariable PlaceOne(const Variable& variable, size_t server_count, Chooser& chooser) {
  Check(variable, server_count);
  const uint64_t row_bytes = RowBytesIn(variable);
  PlacedVariable placed{RowMapOf(variable, row_bytes, server_count), {}};
  placed.parts.reserve(placed.rows.parts());
  for (uint32_t i = 0; i < placed.rows.parts(); ++i) {
    const RowSet rows = placed.rows.RowsOf(i);
    const uint64_t bytes = rows.count * row_bytes;
    const size_t chosen = chooser.Next(bytes);
    placed.parts.push_back(
        {SpecOfPart(variable.spec, placed.rows, i), rows, bytes, variable.server.value_or(chosen)});
  }
  return placed;
}

}  // namespace

Placement Place(const std::vector<Variable>& variables, size_t server_count, Strategy strategy) {
  if (server_count == 0) {
    throw Error(Phase::kRun, "no parameter server to hold variables", "give the job a ps task");
  }
  Chooser chooser(strategy, server_count);
  Placement placement{{}, std::vector<uint64_t>(server_count)};
  placement.variables.reserve(variables.size());
  for (const Variable& variable : variables) {
    placement.variables.push_back(PlaceOne(variable, server_count, chooser));
    for (const Part& part : placement.variables.back().parts) {
      placement.server_bytes[part.server] += part.bytes;
    }
  }
  return placement;
}

std::vector<std::vector<PartId>> PartsOfServers(const Placement& placement) {
  std::vector<std::vector<PartId>> servers(placement.server_bytes.size());
  for (size_t i = 0; i < placement.variables.size(); ++i) {
    const std::vector<Part>& parts = placement.variables[i].parts;
    for (size_t j = 0; j < parts.size(); ++j) servers[parts[j].server].push_back({i, j});
  }
  return servers;
}

}  // namespace tfdist::runtime
