// The variables of one server in blocks, and the optimizer that changes them. Knows nothing of the
// network. One thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/checkpoint/shard_file.h"
#include "runtime/common/tensor.h"
#include "runtime/ps/store/version.h"
#include "runtime/transport/blocks.h"
#include "runtime/transport/messages.h"
#include "runtime/update/optimizer.h"

namespace tfdist::runtime {

// The optimizer's steps of the variables that one push is about and that come in several parts of
// it: all parts take the same.
class PushSteps {
 public:
  [[nodiscard]] const OptimizerStep* Find(uint32_t variable) const;
  void Add(uint32_t variable, OptimizerStep step) { steps_.emplace_back(variable, step); }

 private:
  std::vector<std::pair<uint32_t, OptimizerStep>> steps_;
};

// Every call that takes a block and ranges throws Error(kRun), with nothing changed, unless the
// block is there, each range lies within it, none overlaps the one before, and there are as many
// values as the ranges hold.
class VariableStore {
 public:
  // Names and shapes. When there are some already they must be the same (a chief that was started
  // again). Throws Error(kRun), with nothing changed, for two variables of one name or another set
  // than before.
  void Declare(const std::vector<TensorSpec>& variables, const Optimizer& optimizer);
  [[nodiscard]] bool declared() const { return layout_.has_value(); }
  // Throws Error(kRun) that names the first difference unless these are the variables.
  void ExpectSame(const std::vector<TensorSpec>& variables) const;

  // First values. Throws Error(kRun) for values that are not finite.
  void Assign(size_t block, const std::vector<Range>& ranges, std::span<const float> values);
  // For the schedule of the learning rate.
  void SetGlobalStep(uint64_t step) {
    if (optimizer_) optimizer_->SetGlobalStep(step);
  }
  // Every block has its first values.
  [[nodiscard]] bool created() const { return declared() && unassigned_ == 0; }

  // Applies gradients: those of all ranges or, throwing Error(kRun), none. All must be finite.
  // `steps` are those of the push that this is a part of.
  void Push(size_t block, const std::vector<Range>& ranges, std::span<const float> gradients,
            PushSteps& steps);

  // Adds gradients to the sums of a step to come: those of all ranges or, throwing Error(kRun),
  // none. Each is of a variable's whole piece of the block. Sums take as much memory as the values.
  void Sum(size_t block, const std::vector<Range>& ranges, std::span<const float> gradients);
  // Applies, as one step, the mean of what has been added to each piece since the last time, added
  // up in the order in which it came. A piece that nothing was added to stays as it is.
  void ApplyMeans();

  // The values now. Throws Error(kRun).
  void ExpectValid(size_t block, const std::vector<Range>& ranges) const;
  [[nodiscard]] std::span<const float> Values(size_t block) const;
  // Throws Error(kRun) that names the first value that would be written as infinity.
  void ExpectFit(size_t block, const std::vector<Range>& ranges, WireFloat kind) const;
  // The same, to be held beyond the next update of the block: one call of LetGo belongs to it.
  Version& Hold(size_t block);
  // Whether the block was updated since it was last held, so that holding it costs the next update
  // a new version.
  [[nodiscard]] bool ChangesOften(size_t block) const { return blocks_[block].changed; }

  // All that is kept of the variables, for a checkpoint: the values as they are now, while updates go
  // on. An update of a block that is still held goes to other memory, as much as the block takes.
  // The pieces must be let go of before the store ends. Any thread may do that.
  [[nodiscard]] std::vector<TensorSource> Snapshot();
  // From a checkpoint: memory for all values and slots, to be filled by Pieces and state. No block
  // has its first values until SetLoaded.
  void PrepareToLoad();
  // The memory of a variable's values (`slot` is nullopt) or of a slot, from first to last.
  std::vector<std::span<float>> Pieces(size_t variable, std::optional<size_t> slot);
  OptimizerState& state(size_t variable) { return states_[variable]; }
  void SetLoaded();
  // What was loaded is not to be used: first values follow.
  void ForgetLoaded();
  [[nodiscard]] const std::vector<TensorSpec>& variables() const { return variables_; }

  // Updates that found their version held and went to another buffer.
  [[nodiscard]] uint64_t new_versions() const { return new_versions_; }

 private:
  struct Block {
    std::unique_ptr<Version> newest;
    std::array<std::unique_ptr<Version>, 2>
        slots;                     // the optimizer's: as long as the block, or none
    std::vector<float> sum;        // of gradients: the same
    std::vector<uint32_t> summed;  // how many, by piece; empty as long as `sum` is
    bool assigned = false;
    bool changed = false;
  };

  void Apply(size_t block, const std::vector<Range>& ranges, std::span<const float> gradients,
             PushSteps& steps);
  void AddToPiece(Block& block, size_t piece, const Extent& extent,
                  std::span<const float> gradient);
  void ApplyMean(size_t block, PushSteps& steps);
  void ExpectWholePieces(size_t block, const std::vector<Range>& ranges,
                         std::span<const float> values) const;
  void ExpectFinite(size_t block, const std::vector<Range>& ranges,
                    std::span<const float> values) const;
  [[nodiscard]] std::string NameOf(size_t block, size_t offset) const;
  void SetSlots(Block& block, float value);
  void AddPieces(size_t variable, std::optional<size_t> slot, TensorSource& source);
  Version& VersionOf(Block& block, std::optional<size_t> slot) {
    return slot ? *block.slots[*slot] : *block.newest;
  }
  // The version to write to; `before` keeps the one to read from when that is another.
  Version& NextVersion(Block& block, std::unique_ptr<Version>& before);
  // Slots that somebody still reads go on in other memory.
  void RenewHeldSlots(Block& block);
  void ApplyTo(Block& block, const Extent& extent, const Version* before,
               std::span<const float> gradient, PushSteps& steps);
  // `extent`: what one message has of a variable in one block.
  OptimizerStep StepOf(const Extent& extent, PushSteps& steps);

  std::vector<TensorSpec> variables_;
  std::optional<BlockLayout> layout_;
  std::optional<Optimizer> optimizer_;
  std::vector<OptimizerState> states_;  // by variable
  std::vector<Block> blocks_;
  size_t unassigned_ = 0;
  VersionPool pool_;
  uint64_t new_versions_ = 0;
};

}  // namespace tfdist::runtime
