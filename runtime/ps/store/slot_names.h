// What tensors of a checkpoint are called that an optimizer keeps beside the values.
#pragma once

#include <cstddef>
#include <string>

#include "runtime/checkpoint/shard_file.h"
#include "runtime/update/optimizer.h"

namespace tfdist::runtime {

// "#momentum", "#accumulator"; of Adam "#m" and "#v".
std::string SlotSuffix(OptimizerKind kind, size_t slot);
// OptimizerState says something: Adam alone.
bool KeepsPowers(OptimizerKind kind);
// The state as a tensor of two values.
TensorSource SourceOf(std::string name, const OptimizerState& state);

}  // namespace tfdist::runtime
