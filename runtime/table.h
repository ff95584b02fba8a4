// What an embedding table is to every part of the runtime: rows of equally many floats, of which a
// request names some by id. A table may be far larger than what any one server holds.
//
//     TableSpec words{.name = "words", .rows = 10'000'000, .width = 16};
//     words.initial = UniformRows(-0.05F, 0.05F, 7);
//     words.partitioner = FixedParts{8};  // over eight servers, or as many as there are
//
// First values are made where the rows are, and never sent. A row's are a function of the seed, of
// the table's name and of its id alone: they do not depend on how many servers there are, on the
// lookup rule or on the partitioner.
//
// The generator is Philox4x32-10 (J. K. Salmon et al., "Parallel random numbers: as easy as 1, 2,
// 3", SC 2011), the one that TensorFlow uses. Its output is a function of a key and of a counter,
// so any row can be made by itself, on any server; a generator with a state would have to be
// wound forward over the rows of other servers. Key: seed and name; counter: id and column. The
// numbers are not those of TensorFlow, which counts over the tensor as a whole. They are the same
// on every machine: no function of the C library is in them.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/placement/partitioner.h"
#include "runtime/placement/row_map.h"

namespace tfdist::runtime {

enum class RowValues : uint8_t {
  kUniform = 0,  // `first` is the least, `second` is above the largest; equal ones: constant
  kTruncatedNormal = 1,  // mean `first`, deviation `second`, none further than two deviations away
};

struct RowInitializer {
  RowValues values = RowValues::kUniform;
  float first = -0.05F;  // TensorFlow's random_uniform_initializer
  float second = 0.05F;
  uint64_t seed = 0;

  bool operator==(const RowInitializer&) const = default;
};
inline RowInitializer UniformRows(float low, float high, uint64_t seed) {
  return {RowValues::kUniform, low, high, seed};
}
inline RowInitializer TruncatedNormalRows(float mean, float deviation, uint64_t seed) {
  return {RowValues::kTruncatedNormal, mean, deviation, seed};
}

// The client rejects an invalid spec (client.h).
struct TableSpec {
  std::string name;
  uint32_t rows = 0;   // ids are 0 to rows - 1
  uint32_t width = 0;  // floats of a row; kMaxTableWidth at most
  RowInitializer initial = {};
  LookupRule lookup = LookupRule::kDiv;
  Partitioner partitioner = Unsplit{};
};

// A row travels in one message.
inline constexpr uint32_t kMaxTableWidth = 1U << 16;

// What one server holds of a table: row i here is row first + i * step of the whole.
struct TablePart {
  std::string table;
  uint32_t rows = 0;
  uint32_t width = 0;
  uint32_t first = 0;
  uint32_t step = 1;
  RowInitializer initial = {};

  bool operator==(const TablePart&) const = default;
};

// "words [10000000,16]", "words [5,16] from row 1 in steps of 2".
std::string ToString(const TablePart& part);

}  // namespace tfdist::runtime
