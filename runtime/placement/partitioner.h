// Into how many parts a variable is split along its first dimension: TensorFlow's rules
// (python/ops/partitioned_variables.py, python/distribute/sharded_variable.py).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>

namespace tfdist::runtime {

struct Unsplit {};

// fixed_size_partitioner: that many, or as many as there are rows.
struct FixedParts {
  uint32_t parts = 1;
};

// min_max_variable_partitioner: ceil(bytes / min_bytes), so a part can be below the "minimum".
struct MinPartSize {
  uint64_t min_bytes = 256 << 10;
  // TensorFlow's default, with which nothing is ever split. nullopt: as many as there are servers,
  // as its tutorials have it.
  std::optional<uint32_t> max_parts = 1;
};

// variable_axis_size_partitioner: as many whole rows in each part as fit into `max_bytes`; one row
// where none fits.
struct MaxPartSize {
  uint64_t max_bytes = 0;
  std::optional<uint32_t> max_parts;  // nullopt: no limit; otherwise it comes before `max_bytes`
};

using Partitioner = std::variant<Unsplit, FixedParts, MinPartSize, MaxPartSize>;

// From 1 to `rows`. `rows`, `row_bytes`, their product and `server_count` are at least 1 and fit
// into 63 bits. Throws Error(kRun) when the partitioner has a 0 in it.
uint64_t PartCount(const Partitioner& partitioner, uint64_t rows, uint64_t row_bytes,
                   size_t server_count);

}  // namespace tfdist::runtime
