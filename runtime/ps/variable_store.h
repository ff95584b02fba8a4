// The variables of one server in blocks, and the rule that changes them. Knows nothing of the
// network. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/ps/version.h"
#include "runtime/tensor.h"
#include "runtime/transport/blocks.h"
#include "runtime/transport/messages.h"
#include "runtime/update/update_rule.h"

namespace tfdist::runtime {

// Every call that takes a block and ranges throws Error(kRun), with nothing changed, unless the
// block is there, each range lies within it, none overlaps the one before, and there are as many
// values as the ranges hold.
class VariableStore {
 public:
  // Names and shapes. When there are some already they must be the same (a chief that was started
  // again). Throws Error(kRun), with nothing changed, for two variables of one name or another set
  // than before.
  void Declare(const std::vector<TensorSpec>& variables, std::unique_ptr<UpdateRule> rule);
  [[nodiscard]] bool declared() const { return layout_.has_value(); }
  // Throws Error(kRun) that names the first difference unless these are the variables.
  void ExpectSame(const std::vector<TensorSpec>& variables) const;

  // First values. Throws Error(kRun) for values that are not finite.
  void Assign(size_t block, const std::vector<Range>& ranges, std::span<const float> values);
  // Every block has its first values.
  [[nodiscard]] bool created() const { return declared() && unassigned_ == 0; }

  // Applies gradients: those of all ranges or, throwing Error(kRun), none. All must be finite.
  void Push(size_t block, const std::vector<Range>& ranges, std::span<const float> gradients);

  // The values now. Throws Error(kRun).
  void ExpectValid(size_t block, const std::vector<Range>& ranges) const;
  [[nodiscard]] std::span<const float> Values(size_t block) const;
  // The same, to be held beyond the next update of the block: one call of LetGo belongs to it.
  Version& Hold(size_t block);
  // Whether the block was updated since it was last held, so that holding it costs the next update
  // a new version.
  [[nodiscard]] bool ChangesOften(size_t block) const { return blocks_[block].changed; }

  // Updates that found their version held and went to another buffer.
  [[nodiscard]] uint64_t new_versions() const { return new_versions_; }

 private:
  struct Block {
    std::unique_ptr<Version> newest;
    bool assigned = false;
    bool changed = false;
  };

  void ExpectFinite(size_t block, const std::vector<Range>& ranges,
                    std::span<const float> values) const;
  void MakeWritable(Block& block);

  std::vector<TensorSpec> variables_;
  std::optional<BlockLayout> layout_;
  std::unique_ptr<UpdateRule> rule_;
  std::vector<Block> blocks_;
  size_t unassigned_ = 0;
  VersionPool pool_;
  uint64_t new_versions_ = 0;
};

}  // namespace tfdist::runtime
