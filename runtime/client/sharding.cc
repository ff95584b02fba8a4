#include "runtime/client/sharding.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace tfdist::runtime {
namespace {

TablePart PartOf(const TableSpec& table, const RowSet& rows) {
  return {table.name, rows.count, table.width, rows.first, rows.step, table.initial};
}

Variable VariableOf(const TableSpec& table) {
  return {.spec = {table.name, {table.rows, table.width}},
          .lookup = table.lookup,
          .partitioner = table.partitioner};
}

void CheckWidth(const TableSpec& table) {
  if (table.width <= kMaxTableWidth) return;
  throw Error(Phase::kUsage, fmt::format("table {}: rows of {} floats, the limit is {}", table.name,
                                         table.width, kMaxTableWidth));
}

}  // namespace

Sharding::Sharding(std::vector<TensorSpec> variables, std::vector<TableSpec> tables, size_t servers,
                   size_t threads, Strategy strategy, const Partitioner& partitioner)
    : variables_(std::move(variables)), tables_(std::move(tables)), threads_(threads) {
  for (const TableSpec& table : tables_) CheckWidth(table);
  std::vector<Variable> all;
  for (const TensorSpec& spec : variables_) {
    floats_.push_back(ElementCount(spec));
    all.push_back({.spec = spec, .lookup = {}, .partitioner = partitioner});
  }
  for (const TableSpec& table : tables_) all.push_back(VariableOf(table));
  const Placement placement = Place(all, servers, strategy);
  // Servers behind the last that holds something are left alone; ps:0 counts the steps.
  shares_.resize(threads_);
  locations_.resize(variables_.size());
  for (size_t i = 0; i < variables_.size(); ++i) PlaceVariable(i, placement.variables[i]);
  for (size_t i = 0; i < tables_.size(); ++i) {
    PlaceTable(tables_[i], placement.variables[variables_.size() + i]);
  }
  for (Share& share : shares_) share.layout.emplace(share.specs);
}

void Sharding::PlaceVariable(size_t variable, const PlacedVariable& placed) {
  const size_t rows = placed.rows.rows();
  for (const Part& part : placed.parts) {
    const size_t server = TakeThread(part);
    Share& share = shares_[server];
    locations_[variable].push_back(
        {server, share.specs.size(), part.rows.first * (floats_[variable] / rows)});
    share.specs.push_back(part.spec);
  }
}

void Sharding::PlaceTable(const TableSpec& table, const PlacedVariable& placed) {
  TableLocation& location = table_locations_.emplace_back(TableLocation{placed.rows, {}});
  for (const Part& part : placed.parts) {
    const size_t server = TakeThread(part);
    std::vector<TablePart>& there = shares_[server].tables;
    location.parts.push_back({server, static_cast<uint32_t>(there.size())});
    there.push_back(PartOf(table, part.rows));
  }
}

std::vector<Origin> Sharding::OriginsOf(size_t server) const {
  std::vector<Origin> origins(shares_[server].specs.size());
  for (size_t i = 0; i < variables_.size(); ++i) {
    for (const Location& part : locations_[i]) {
      if (part.server != server) continue;
      origins[part.position] = {variables_[i].name, variables_[i].shape, part.first};
    }
  }
  return origins;
}

// The thread of the part's server that has the least, and has this part too from now on.
size_t Sharding::TakeThread(const Part& part) {
  const size_t first = part.server * threads_;
  shares_.resize(std::max(shares_.size(), first + threads_));
  const auto begin = shares_.begin() + static_cast<ptrdiff_t>(first);
  const auto least =
      std::min_element(begin, begin + static_cast<ptrdiff_t>(threads_),
                       [](const Share& a, const Share& b) { return a.bytes < b.bytes; });
  least->bytes += part.bytes;
  return static_cast<size_t>(least - shares_.begin());
}

}  // namespace tfdist::runtime
