#include "runtime/ps/tables/table.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "runtime/common/row_bytes.h"
#include "runtime/ps/tables/first_rows.h"

namespace tfdist::runtime {
namespace {

// Rows lie anywhere in far more memory than the caches hold. What is asked for so early is there
// when its turn comes; a processor by itself looks only about four short rows ahead.
constexpr size_t kRowsAhead = 24;
constexpr size_t kLineBytes = 64;
constexpr size_t kPrefetchedBytes = 8 * kLineBytes;  // the end of a long row comes by itself

[[gnu::always_inline]] inline void Prefetch(const char* row, size_t bytes) {
  for (size_t at = 0; at < std::min(bytes, kPrefetchedBytes); at += kLineBytes) {
    __builtin_prefetch(row + at);
  }
  __builtin_prefetch(row + bytes - 1);
}

template <typename Bytes>
void GatherRows(const char* values, std::span<const uint32_t> rows, Bytes row_bytes, char* to) {
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i + kRowsAhead < rows.size()) {
      Prefetch(values + rows[i + kRowsAhead] * row_bytes, row_bytes);
    }
    std::memcpy(to, values + rows[i] * row_bytes, row_bytes);
    to += row_bytes;
  }
}

const TablePart& Checked(const TablePart& part) {
  if (part.rows == 0 || part.width == 0) {
    throw Error(Phase::kRun, ToString(part) + ": a table without values");
  }
  if (part.width > kMaxTableWidth) throw Error(Phase::kRun, ToString(part) + ": rows too wide");
  // Ids have 32 bits.
  const uint64_t last = part.first + uint64_t{part.rows - 1} * part.step;
  if (part.step == 0 || last >> 32 != 0) {
    throw Error(Phase::kRun, ToString(part) + ": no such part of a table");
  }
  Check(part.initial);
  return part;
}

}  // namespace

Table::Table(const TablePart& part, const Optimizer& optimizer)
    : part_(Checked(part)),
      values_(size_t{part.rows} * part.width),
      state_(optimizer.initial_state()) {
  FillFirstRows(part_, values_.floats());
  for (size_t i = 0; i < optimizer.slot_count(); ++i) {
    slots_[i] = FloatSlab(values_.floats().size());
    const float initial = optimizer.initial_slot_value();
    // Zeros are there already, and cost nothing until a row is touched. Where the first push
    // touches all rows the memory is better taken now, when nobody waits.
    if (initial != 0 || optimizer.moves_all_rows()) {
      std::fill(slots_[i].floats().begin(), slots_[i].floats().end(), initial);
    }
  }
}

bool Table::Holds(std::span<const uint32_t> rows) const {
  uint32_t largest = 0;
  for (const uint32_t row : rows) largest = std::max(largest, row);
  return largest < part_.rows;
}

void Table::Gather(std::span<const uint32_t> rows, float* to) const {
  const char* const values = reinterpret_cast<const char*>(values_.floats().data());
  WithRowBytes(width() * sizeof(float), [&](auto row_bytes) {
    GatherRows(values, rows, row_bytes, reinterpret_cast<char*>(to));
  });
}

void Table::Apply(const Optimizer& optimizer, OptimizerStep step, const RowsGradient& gradient) {
  optimizer.ApplyRows(step, All(), 0, gradient);
}

VariableRange Table::All() { return {values_.floats(), {slots_[0].floats(), slots_[1].floats()}}; }

}  // namespace tfdist::runtime
