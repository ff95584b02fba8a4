#include "runtime/placement/split_ids.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <variant>

#include "base/error.h"

namespace tfdist::runtime {
namespace {

void CheckBatchSize(size_t ids, std::string_view table) {
  if (ids <= std::numeric_limits<uint32_t>::max()) return;
  throw Error(Phase::kRun, fmt::format("table {}: {} ids in one batch", table, ids),
              "use smaller batches");
}

[[noreturn]] void RefuseId(int64_t id, size_t position, uint32_t rows, std::string_view table) {
  throw Error(Phase::kRun,
              fmt::format("table {}: id {} at position {} of the batch, but {} rows", table, id,
                          position, rows),
              id < 0 ? "ids start at 0: take out what stands for a missing one"
                     : fmt::format("ids go from 0 to {}: give the table more rows", rows - 1));
}

// With one part the rows are the ids: nothing is looked up or counted. Returns the position of the
// first id that is none, else the number of ids.
size_t CopyIds(uint32_t rows, std::span<const int64_t> ids, uint32_t* to) {
  uint64_t largest = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    largest = std::max(largest, static_cast<uint64_t>(ids[i]));  // of all, if one is negative
    to[i] = static_cast<uint32_t>(ids[i]);
  }
  if (largest < rows) return ids.size();
  const auto is_none = [rows](int64_t id) { return static_cast<uint64_t>(id) >= rows; };
  return static_cast<size_t>(std::find_if(ids.begin(), ids.end(), is_none) - ids.begin());
}

// Adds to counts[p] the number of ids in part p; returns the position of the first id that is none,
// else the number of ids. `rule` is copied, so that stores to `counts` cannot change it and it
// stays in registers.
template <typename Rule>
size_t CountByPart(Rule rule, uint32_t rows, std::span<const int64_t> ids, uint32_t* counts) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (static_cast<uint64_t>(ids[i]) >= rows) return i;  // negative ones too
    ++counts[rule.Find(static_cast<uint32_t>(ids[i])).part];
  }
  return ids.size();
}

// Finds each id a second time: to write the first result down and read it back costs as much, and
// memory besides.
template <typename Rule>
void Distribute(Rule rule, std::span<const int64_t> ids, uint32_t* next, uint32_t* rows,
                uint32_t* positions) {
  for (size_t i = 0; i < ids.size(); ++i) {
    const RowAddress address = rule.Find(static_cast<uint32_t>(ids[i]));
    const uint32_t place = next[address.part]++;
    rows[place] = address.row;
    positions[place] = static_cast<uint32_t>(i);
  }
}

}  // namespace

void SplitIds::Split(const RowMap& rows, std::span<const int64_t> ids, std::string_view table) {
  starts_.clear();
  CheckBatchSize(ids.size(), table);
  rows_.resize(ids.size());
  positions_.resize(ids.size());
  if (rows.parts() == 1) return CopyAll(rows.rows(), ids, table);
  next_.assign(rows.parts(), 0);
  std::visit(
      [&](const auto& rule) {
        const size_t good = CountByPart(rule, rows.rows(), ids, next_.data());
        if (good < ids.size()) RefuseId(ids[good], good, rows.rows(), table);
        CountsToStarts();
        Distribute(rule, ids, next_.data(), rows_.data(), positions_.data());
      },
      rows.rule());
}

void SplitIds::CopyAll(uint32_t rows, std::span<const int64_t> ids, std::string_view table) {
  const size_t good = CopyIds(rows, ids, rows_.data());
  if (good < ids.size()) RefuseId(ids[good], good, rows, table);
  std::iota(positions_.begin(), positions_.end(), 0U);
  starts_ = {0, static_cast<uint32_t>(ids.size())};
}

void SplitIds::CountsToStarts() {
  std::exclusive_scan(next_.begin(), next_.end(), next_.begin(), uint32_t{0});
  starts_.assign(next_.begin(), next_.end());
  starts_.push_back(static_cast<uint32_t>(rows_.size()));
}

}  // namespace tfdist::runtime
