#include "runtime/ps/store/variable_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "base/error.h"
#include "runtime/ps/store/finite.h"
#include "runtime/ps/store/slot_names.h"
#include "runtime/ps/store/sum.h"
#include "runtime/transport/refusal.h"

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

// Calls `use` with each run of values that lies in one range and one variable.
template <typename Use>
void ForEachRun(const std::vector<Range>& ranges, std::span<const Extent> extents,
                std::span<const float> values, Use use) {
  size_t used = 0;
  auto extent = extents.begin();
  for (const Range& range : ranges) {
    const uint32_t end = range.offset + range.count;
    for (uint32_t at = range.offset; at < end;) {
      while (extent->offset + extent->count <= at) ++extent;
      const uint32_t count = std::min(end, extent->offset + extent->count) - at;
      use(Extent{extent->variable, extent->block, extent->first + at - extent->offset, at, count},
          values.subspan(used, count));
      used += count;
      at += count;
    }
  }
}

// Which piece of its block begins with float `offset`, or holds it.
size_t PieceAt(std::span<const Extent> pieces, uint32_t offset) {
  const auto after =
      std::upper_bound(pieces.begin(), pieces.end(), offset,
                       [](uint32_t at, const Extent& piece) { return at < piece.offset; });
  return static_cast<size_t>(after - pieces.begin()) - 1;
}

}  // namespace

void VariableStore::Declare(const std::vector<TensorSpec>& variables, const Optimizer& optimizer) {
  ExpectDistinctNames(variables);
  if (declared()) {
    if (variables != variables_) {
      throw Refusal(RefusalKind::kMismatch,
                    "other variables are there already: was the model changed?", kSameModel);
    }
    return;
  }
  // All of it or, where memory ends, nothing.
  BlockLayout layout(variables);
  std::vector<TensorSpec> copies = variables;
  std::vector<OptimizerState> states(variables.size(), optimizer.initial_state());
  std::vector<Block> blocks(layout.block_count());
  layout_ = std::move(layout);
  variables_ = std::move(copies);
  optimizer_ = optimizer;
  states_ = std::move(states);
  blocks_ = std::move(blocks);
  unassigned_ = blocks_.size();
}

void VariableStore::ExpectSame(const std::vector<TensorSpec>& variables) const {
  if (variables == variables_) return;
  const auto [asked, here] =
      std::mismatch(variables.begin(), variables.end(), variables_.begin(), variables_.end());
  if (asked == variables.end() || here == variables_.end()) {
    throw Refusal(
        RefusalKind::kMismatch,
        fmt::format("{} variables asked for, {} are here", variables.size(), variables_.size()),
        kSameModel);
  }
  throw Refusal(RefusalKind::kMismatch,
                fmt::format("{}: the variable here is {}", ToString(*asked), ToString(*here)),
                kSameModel);
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
  std::copy(values.begin(), values.end(), target.newest->values().begin());
  SetSlots(target, optimizer_->initial_slot_value());
  if (!std::exchange(target.assigned, true)) --unassigned_;
}

void VariableStore::SetSlots(Block& block, float value) {
  const size_t floats = block.newest->values().size();
  for (size_t slot = 0; slot < optimizer_->slot_count(); ++slot) {
    if (!block.slots[slot]) block.slots[slot] = pool_.Take(floats);
    std::ranges::fill(block.slots[slot]->values(), value);
  }
}

void VariableStore::Push(size_t block, const std::vector<Range>& ranges,
                         std::span<const float> gradients, PushSteps& steps) {
  ExpectValid(block, ranges);
  ExpectAsMany(gradients, ranges);
  ExpectFinite(block, ranges, gradients);
  Apply(block, ranges, gradients, steps);
}

void VariableStore::Sum(size_t block, const std::vector<Range>& ranges,
                        std::span<const float> gradients) {
  ExpectValid(block, ranges);
  ExpectAsMany(gradients, ranges);
  ExpectFinite(block, ranges, gradients);
  if (gradients.empty()) return;
  ExpectWholePieces(block, ranges, gradients);
  Block& target = blocks_[block];
  const std::span<const Extent> pieces = layout_->InBlock(block);
  target.sum.resize(layout_->FloatsOf(block));
  target.summed.resize(pieces.size());
  ForEachRun(ranges, pieces, gradients, [&](const Extent& extent, std::span<const float> gradient) {
    AddToPiece(target, PieceAt(pieces, extent.offset), extent, gradient);
  });
}

void VariableStore::AddToPiece(Block& block, size_t piece, const Extent& extent,
                               std::span<const float> gradient) {
  const std::span<float> sum = std::span(block.sum).subspan(extent.offset, extent.count);
  if (block.summed[piece]++ == 0) {
    std::copy(gradient.begin(), gradient.end(), sum.begin());
  } else {
    AddTo(sum, gradient);
  }
}

void VariableStore::ApplyMeans() {
  PushSteps steps;
  for (size_t block = 0; block < blocks_.size(); ++block) {
    if (!blocks_[block].sum.empty()) ApplyMean(block, steps);
  }
}

void VariableStore::ApplyMean(size_t block, PushSteps& steps) {
  Block& target = blocks_[block];
  const std::span<const Extent> pieces = layout_->InBlock(block);
  std::vector<Range> ranges;
  std::vector<float> some;  // gradients of some pieces only, one after the other
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (target.summed[i] == 0) continue;
    const auto sum = std::span(target.sum).subspan(pieces[i].offset, pieces[i].count);
    DivideBy(static_cast<float>(std::exchange(target.summed[i], 0)), sum);
    ranges.push_back({pieces[i].offset, pieces[i].count});
  }
  if (ranges.size() == pieces.size()) {
    Apply(block, ranges, target.sum, steps);
    return;
  }
  for (const Range& range : ranges) {
    const auto begin = target.sum.begin() + range.offset;
    some.insert(some.end(), begin, begin + range.count);
  }
  Apply(block, ranges, some, steps);
}

void VariableStore::Apply(size_t block, const std::vector<Range>& ranges,
                          std::span<const float> gradients, PushSteps& steps) {
  if (gradients.empty()) return;
  Block& target = blocks_[block];
  std::unique_ptr<Version> before;
  Version& next = NextVersion(target, before);
  RenewHeldSlots(target);
  const bool whole = gradients.size() == next.values().size();
  if (before && !whole) {
    const std::span<const float> from = before->values();
    std::copy(from.begin(), from.end(), next.values().begin());
  }
  ForEachRun(ranges, layout_->InBlock(block), gradients,
             [&](const Extent& extent, std::span<const float> gradient) {
               ApplyTo(target, extent, whole ? before.get() : nullptr, gradient, steps);
             });
  if (before) pool_.Retire(std::move(before));
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

void VariableStore::ExpectWholePieces(size_t block, const std::vector<Range>& ranges,
                                      std::span<const float> values) const {
  const std::span<const Extent> pieces = layout_->InBlock(block);
  ForEachRun(ranges, pieces, values, [&](const Extent& extent, std::span<const float>) {
    if (extent == pieces[PieceAt(pieces, extent.offset)]) return;
    throw Error(Phase::kRun, ToString(variables_[extent.variable]) +
                                 ": a gradient of some of its values has no place in a mean");
  });
}

void VariableStore::ExpectFinite(size_t block, const std::vector<Range>& ranges,
                                 std::span<const float> values) const {
  if (AllFinite(values)) return;
  size_t bad = FirstNotFinite(values);
  const float value = values[bad];
  auto range = ranges.begin();
  for (; bad >= range->count; ++range) bad -= range->count;
  throw Refusal(RefusalKind::kNotFinite,
                fmt::format("{} is {}", NameOf(block, range->offset + bad), value));
}

void VariableStore::ExpectFit(size_t block, const std::vector<Range>& ranges,
                              WireFloat kind) const {
  const std::span<const float> values = Values(block);
  for (const Range& range : ranges) {
    const std::span<const float> wanted = values.subspan(range.offset, range.count);
    if (Fit(wanted, kind)) continue;
    const auto bad = std::find_if_not(wanted.begin(), wanted.end(), [&](const float& value) {
      return Fit({&value, 1}, kind);
    });
    const auto offset = range.offset + static_cast<size_t>(bad - wanted.begin());
    throw Refusal(
        RefusalKind::kNotFinite,
        fmt::format("{} is {}, too large for the 16 bits asked for", NameOf(block, offset), *bad));
  }
}

// "w [2]: value 1", of the value that lies there.
std::string VariableStore::NameOf(size_t block, size_t offset) const {
  for (const Extent& extent : layout_->InBlock(block)) {
    if (offset >= size_t{extent.offset} + extent.count) continue;
    return fmt::format("{}: value {}", ToString(variables_[extent.variable]),
                       extent.first + offset - extent.offset);
  }
  return "padding";
}

Version& VariableStore::NextVersion(Block& block, std::unique_ptr<Version>& before) {
  if (block.newest->held()) {
    before = std::exchange(block.newest, pool_.Take(block.newest->values().size()));
    ++new_versions_;
  }
  return *block.newest;
}

void VariableStore::RenewHeldSlots(Block& block) {
  for (std::unique_ptr<Version>& slot : block.slots) {
    if (!slot || !slot->held()) continue;
    std::unique_ptr<Version> before = std::exchange(slot, pool_.Take(slot->values().size()));
    std::ranges::copy(before->values(), slot->values().begin());
    pool_.Retire(std::move(before));
  }
}

std::vector<TensorSource> VariableStore::Snapshot() {
  std::vector<TensorSource> sources;
  for (size_t i = 0; i < variables_.size(); ++i) {
    AddPieces(i, std::nullopt, sources.emplace_back(TensorSource{variables_[i], {}}));
    for (size_t slot = 0; slot < optimizer_->slot_count(); ++slot) {
      const std::string name = variables_[i].name + SlotSuffix(optimizer_->spec().kind, slot);
      AddPieces(i, slot, sources.emplace_back(TensorSource{{name, variables_[i].shape}, {}}));
    }
    if (KeepsPowers(optimizer_->spec().kind)) {
      sources.push_back(SourceOf(StateName(variables_[i].name), states_[i]));
    }
  }
  return sources;
}

void VariableStore::AddPieces(size_t variable, std::optional<size_t> slot, TensorSource& source) {
  for (const Extent& extent : layout_->OfVariable(variable)) {
    Version& version = VersionOf(blocks_[extent.block], slot);
    version.Hold();
    source.pieces.push_back({version.values().subspan(extent.offset, extent.count),
                             std::shared_ptr<void>(&version, [](void* held) {
                               static_cast<Version*>(held)->LetGo();
                             })});
  }
}

void VariableStore::PrepareToLoad() {
  for (size_t block = 0; block < blocks_.size(); ++block) {
    Block& target = blocks_[block];
    if (!target.newest) target.newest = pool_.Take(layout_->FloatsOf(block));
    SetSlots(target, optimizer_->initial_slot_value());
  }
  ForgetLoaded();
}

std::vector<std::span<float>> VariableStore::Pieces(size_t variable, std::optional<size_t> slot) {
  std::vector<std::span<float>> pieces;
  for (const Extent& extent : layout_->OfVariable(variable)) {
    pieces.push_back(
        VersionOf(blocks_[extent.block], slot).values().subspan(extent.offset, extent.count));
  }
  return pieces;
}

void VariableStore::SetLoaded() {
  for (Block& block : blocks_) block.assigned = true;
  unassigned_ = 0;
}

void VariableStore::ForgetLoaded() {
  states_.assign(variables_.size(), optimizer_->initial_state());
}

void VariableStore::ApplyTo(Block& block, const Extent& extent, const Version* before,
                            std::span<const float> gradient, PushSteps& steps) {
  VariableRange range{block.newest->values().subspan(extent.offset, extent.count), {}};
  for (size_t slot = 0; slot < optimizer_->slot_count(); ++slot) {
    range.slots[slot] = block.slots[slot]->values().subspan(extent.offset, extent.count);
  }
  const OptimizerStep step = StepOf(extent, steps);
  if (before == nullptr) {
    optimizer_->Apply(step, range, gradient);
  } else {
    optimizer_->ApplyFrom(step, before->values().subspan(extent.offset, extent.count), range,
                          gradient);
  }
}

OptimizerStep VariableStore::StepOf(const Extent& extent, PushSteps& steps) {
  if (const OptimizerStep* step = steps.Find(extent.variable)) return *step;
  const OptimizerStep step = optimizer_->NextStep(states_[extent.variable]);
  const std::span<const Extent> pieces = layout_->OfVariable(extent.variable);
  const bool may_come_again = pieces.size() > 1 || extent.count < pieces.front().count;
  if (may_come_again) steps.Add(extent.variable, step);
  return step;
}

const OptimizerStep* PushSteps::Find(uint32_t variable) const {
  const auto found = std::find_if(steps_.begin(), steps_.end(),
                                  [&](const auto& entry) { return entry.first == variable; });
  return found == steps_.end() ? nullptr : &found->second;
}

}  // namespace tfdist::runtime
