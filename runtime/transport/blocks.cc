#include "runtime/transport/blocks.h"

#include <algorithm>

namespace tfdist::runtime {
namespace {

constexpr size_t kMaxBlockFloats = kMaxBlockBytes / sizeof(float);
constexpr size_t kFusedFloats = kFusedBytes / sizeof(float);
constexpr size_t kMaxFusedBlockFloats = kMaxFusedBlockBytes / sizeof(float);

}  // namespace

BlockLayout::BlockLayout(const std::vector<TensorSpec>& variables)
    : of_variables_(variables.size()) {
  for (uint32_t i = 0; i < variables.size(); ++i) {
    const size_t floats = ElementCount(variables[i]);
    if (floats >= kFusedFloats) {
      Cut(i, floats);
    } else if (floats > 0) {
      Fuse(i, floats);
    }
  }
}

std::span<const Extent> BlockLayout::OfVariable(size_t variable) const {
  return of_variables_[variable];
}

void BlockLayout::Cut(uint32_t variable, size_t floats) {
  const size_t pieces = (floats + kMaxBlockFloats - 1) / kMaxBlockFloats;
  size_t first = 0;
  for (size_t piece = 1; piece <= pieces; ++piece) {
    const size_t end = floats * piece / pieces;
    const auto block = static_cast<uint32_t>(block_floats_.size());
    Add({variable, block, first, 0, static_cast<uint32_t>(end - first)});
    first = end;
  }
}

void BlockLayout::Fuse(uint32_t variable, size_t floats) {
  if (!fusing_ || block_floats_[fused_block_] + floats > kMaxFusedBlockFloats) {
    fusing_ = true;
    fused_block_ = static_cast<uint32_t>(block_floats_.size());
    Add({variable, fused_block_, 0, 0, static_cast<uint32_t>(floats)});
    return;
  }
  Add({variable, fused_block_, 0, block_floats_[fused_block_], static_cast<uint32_t>(floats)});
}

void BlockLayout::Add(const Extent& extent) {
  if (extent.block == block_floats_.size()) {
    block_floats_.push_back(0);
    in_blocks_.emplace_back();
  }
  block_floats_[extent.block] += extent.count;
  of_variables_[extent.variable].push_back(extent);
  in_blocks_[extent.block].push_back(extent);
}

}  // namespace tfdist::runtime
