#include "runtime/ps/variable_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "base/error.h"
#include "runtime/ps/finite.h"

namespace tfdist::runtime {
namespace {

void ExpectDistinctNames(const std::vector<TensorSpec>& variables) {
  std::set<std::string> names;
  for (const TensorSpec& variable : variables) {
    if (!names.insert(variable.name).second) {
      throw Error(Phase::kRun, ToString(variable) + ": there are two of that name");
    }
  }
}

// In order and without overlap, so that no value is changed twice by one push.
bool Fit(const std::vector<Range>& ranges, size_t floats) {
  size_t end = 0;
  for (const Range& range : ranges) {
    if (range.offset < end || range.count > floats || range.offset > floats - range.count) {
      return false;
    }
    end = size_t{range.offset} + range.count;
  }
  return true;
}

void ExpectAsMany(std::span<const float> values, const std::vector<Range>& ranges) {
  if (values.size() == FloatsOf(ranges)) return;
  throw Error(Phase::kRun, fmt::format("message: {} bytes of values where {} belong",
                                       values.size_bytes(), FloatsOf(ranges) * sizeof(float)));
}

// Calls `use` with each range's part of `values` and its place in `block`.
template <typename Use>
void ForEach(const std::vector<Range>& ranges, std::span<const float> values,
             std::span<float> block, Use use) {
  size_t used = 0;
  for (const Range& range : ranges) {
    use(block.subspan(range.offset, range.count), values.subspan(used, range.count));
    used += range.count;
  }
}

}  // namespace

void VariableStore::Declare(const std::vector<TensorSpec>& variables,
                            std::unique_ptr<UpdateRule> rule) {
  ExpectDistinctNames(variables);
  if (declared()) {
    if (variables != variables_) {
      throw Error(Phase::kRun, "other variables are there already: was the model changed?");
    }
    return;
  }
  layout_.emplace(variables);
  variables_ = variables;
  rule_ = std::move(rule);
  blocks_ = std::vector<Block>(layout_->block_count());
  unassigned_ = blocks_.size();
}

void VariableStore::ExpectSame(const std::vector<TensorSpec>& variables) const {
  if (variables == variables_) return;
  const auto [asked, here] =
      std::mismatch(variables.begin(), variables.end(), variables_.begin(), variables_.end());
  if (asked == variables.end() || here == variables_.end()) {
    throw Error(Phase::kRun, fmt::format("{} variables asked for, {} are here", variables.size(),
                                         variables_.size()));
  }
  throw Error(Phase::kRun,
              fmt::format("{}: the variable here is {}", ToString(*asked), ToString(*here)));
}

void VariableStore::Assign(size_t block, const std::vector<Range>& ranges,
                           std::span<const float> values) {
  ExpectValid(block, ranges);
  ExpectAsMany(values, ranges);
  ExpectFinite(block, ranges, values);
  Block& target = blocks_[block];
  if (values.size() != layout_->FloatsOf(block)) {
    throw Error(Phase::kRun, "message: first values for a part of a block");
  }
  if (!target.newest) target.newest = pool_.Take(values.size());
  ForEach(ranges, values, target.newest->values(),
          [](auto to, auto from) { std::copy(from.begin(), from.end(), to.begin()); });
  if (!std::exchange(target.assigned, true)) --unassigned_;
}

void VariableStore::Push(size_t block, const std::vector<Range>& ranges,
                         std::span<const float> gradients) {
  ExpectValid(block, ranges);
  ExpectAsMany(gradients, ranges);
  ExpectFinite(block, ranges, gradients);
  if (gradients.empty()) return;
  Block& target = blocks_[block];
  MakeWritable(target);
  ForEach(ranges, gradients, target.newest->values(),
          [&](auto to, auto from) { rule_->Apply(to, from); });
  target.changed = true;
}

void VariableStore::ExpectValid(size_t block, const std::vector<Range>& ranges) const {
  if (!declared() || block >= blocks_.size()) {
    if (ranges.empty()) return;  // about no block at all
    throw Error(Phase::kRun, "message: no such block");
  }
  if (!Fit(ranges, layout_->FloatsOf(block))) throw Error(Phase::kRun, "message: bad range");
}

std::span<const float> VariableStore::Values(size_t block) const {
  return std::as_const(*blocks_[block].newest).values();
}

Version& VariableStore::Hold(size_t block) {
  Version& newest = *blocks_[block].newest;
  newest.Hold();
  blocks_[block].changed = false;
  return newest;
}

void VariableStore::ExpectFinite(size_t block, const std::vector<Range>& ranges,
                                 std::span<const float> values) const {
  if (AllFinite(values)) return;
  size_t bad = FirstNotFinite(values);
  const float value = values[bad];
  auto range = ranges.begin();
  for (; bad >= range->count; ++range) bad -= range->count;
  const size_t offset = range->offset + bad;
  for (const Extent& extent : layout_->InBlock(block)) {
    if (offset >= size_t{extent.offset} + extent.count) continue;
    throw Error(Phase::kRun,
                fmt::format("{}: value {} is {}", ToString(variables_[extent.variable]),
                            extent.first + offset - extent.offset, value));
  }
}

void VariableStore::MakeWritable(Block& block) {
  if (!block.newest->held()) return;
  std::unique_ptr<Version> next = pool_.Take(block.newest->values().size());
  const auto from = block.newest->values();
  std::copy(from.begin(), from.end(), next->values().begin());
  pool_.Retire(std::exchange(block.newest, std::move(next)));
  ++new_versions_;
}

}  // namespace tfdist::runtime
