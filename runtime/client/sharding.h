// Where a client's variables and tables lie: which server, or thread of one, holds which part.
// Threads count as servers here: those of server i are i * threads and the following.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/common/origin.h"
#include "runtime/common/tensor.h"
#include "runtime/placement/placement.h"
#include "runtime/placement/row_map.h"
#include "runtime/table.h"
#include "runtime/transport/blocks.h"

namespace tfdist::runtime {

// Never changes once it is made.
class Sharding {
 public:
  // Throws Error(kUsage) for rows that are too wide, Error(kRun) for what cannot be placed.
  Sharding(std::vector<TensorSpec> variables, std::vector<TableSpec> tables, size_t servers,
           size_t threads, Strategy strategy, const Partitioner& partitioner);

  // What one server holds.
  struct Share {
    uint64_t bytes = 0;
    std::vector<TensorSpec> specs;
    std::vector<TablePart> tables;
    std::optional<BlockLayout> layout;
  };
  // Where a part of a variable is.
  struct Location {
    size_t server = 0;
    size_t position = 0;  // in the server's list
    size_t first = 0;     // float of the variable
  };
  // Where a table is.
  struct TableLocation {
    struct Part {
      size_t server = 0;
      uint32_t position = 0;  // in the server's list
    };
    RowMap rows;
    std::vector<Part> parts;
  };

  [[nodiscard]] const std::vector<TensorSpec>& variables() const { return variables_; }
  [[nodiscard]] const std::vector<TableSpec>& tables() const { return tables_; }
  [[nodiscard]] size_t FloatsOf(size_t variable) const { return floats_[variable]; }
  // By server; fewer than there are when the last ones hold nothing.
  [[nodiscard]] const std::vector<Share>& shares() const { return shares_; }
  [[nodiscard]] const std::vector<Location>& PartsOf(size_t variable) const {
    return locations_[variable];
  }
  // Of a server's variables, in its order.
  [[nodiscard]] std::vector<Origin> OriginsOf(size_t server) const;
  [[nodiscard]] const TableLocation& LocationOf(size_t table) const {
    return table_locations_[table];
  }

 private:
  void PlaceVariable(size_t variable, const PlacedVariable& placed);
  void PlaceTable(const TableSpec& table, const PlacedVariable& placed);
  size_t TakeThread(const Part& part);

  std::vector<TensorSpec> variables_;
  std::vector<TableSpec> tables_;
  size_t threads_;
  std::vector<size_t> floats_;  // of each variable
  std::vector<Share> shares_;
  std::vector<std::vector<Location>> locations_;  // by variable, in order of its parts
  std::vector<TableLocation> table_locations_;    // by table
};

}  // namespace tfdist::runtime
