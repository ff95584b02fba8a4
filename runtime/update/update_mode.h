// When gradients change the variables, and which trainers wait for others: a value for command
// lines, messages and checkpoints. What each mode does: runtime/ps/policy/update_policy.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tfdist::runtime {

enum class UpdateKind { kAsync, kSync, kStaleness };

// Counts are 4,096 at most.
struct UpdateMode {
  UpdateKind kind = UpdateKind::kAsync;

  // kSync: gradients of one step, TensorFlow's replicas_to_aggregate; 0: as many as trainers. With
  // fewer, the other trainers are backup workers; with more, trainers give several to a step.
  uint32_t replicas = 0;
  uint32_t bound = 0;  // kStaleness: steps that a trainer may be ahead of the slowest

  bool operator==(const UpdateMode&) const = default;
};

// "async", "sync", "sync:replicas=3", "staleness:bound=4".
// Throws Error(kUsage) for anything else.
UpdateMode ParseUpdateMode(std::string_view text);
// ParseUpdateMode gives the same mode back.
std::string ToString(const UpdateMode& mode);

// The mode in a job with this many trainers: no count is left at 0.
UpdateMode Completed(UpdateMode mode, size_t trainers);

}  // namespace tfdist::runtime
