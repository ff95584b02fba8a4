// How the variables of one server are cut into blocks: the unit in which their values travel, are
// changed and are kept as versions. Both sides compute it from the same list of variables.
//
// A variable of `kFusedBytes` and more has blocks of its own, equal ones of at most
// `kMaxBlockBytes`, so that a small variable is never stuck behind the whole of a large one.
// Smaller variables share blocks, in the order of creation, because ZeroMQ is slow with messages
// between 8 and 128 KiB and takes as long for a short one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/common/tensor.h"

namespace tfdist::runtime {

inline constexpr size_t kMaxBlockBytes = size_t{1024} * 1024;
inline constexpr size_t kFusedBytes = size_t{128} * 1024;
inline constexpr size_t kMaxFusedBlockBytes = size_t{512} * 1024;

// A piece of one variable and its place in a block; all numbers count floats.
struct Extent {
  uint32_t variable = 0;
  uint32_t block = 0;
  size_t first = 0;     // in the variable
  uint32_t offset = 0;  // in the block
  uint32_t count = 0;

  bool operator==(const Extent&) const = default;
};

class BlockLayout {
 public:
  // Throws Error(kRun) for a variable that is too large.
  explicit BlockLayout(const std::vector<TensorSpec>& variables);

  [[nodiscard]] size_t block_count() const { return block_floats_.size(); }
  [[nodiscard]] uint32_t FloatsOf(size_t block) const { return block_floats_[block]; }
  // From a variable's first value to its last; none for a variable without values.
  [[nodiscard]] std::span<const Extent> OfVariable(size_t variable) const;
  // From a block's first value to its last.
  [[nodiscard]] std::span<const Extent> InBlock(size_t block) const { return in_blocks_[block]; }

 private:
  void Cut(uint32_t variable, size_t floats);
  void Fuse(uint32_t variable, size_t floats);
  void Add(const Extent& extent);

  std::vector<uint32_t> block_floats_;
  std::vector<std::vector<Extent>> of_variables_;
  std::vector<std::vector<Extent>> in_blocks_;
  bool fusing_ = false;
  uint32_t fused_block_ = 0;  // that the next small variable goes to, if it fits; see fusing_
};

}  // namespace tfdist::runtime
