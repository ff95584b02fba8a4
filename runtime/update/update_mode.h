// When gradients change the variables and who waits for whom: a plain value for command lines,
// messages and checkpoints. What each mode does: runtime/ps/update_policy.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace tfdist::runtime {

enum class UpdateKind { kAsync, kSync, kStaleness };

// Counts are 4,096 at most.
struct UpdateMode {
  UpdateKind kind = UpdateKind::kAsync;

  // kSync, with the names of TensorFlow's SyncReplicasOptimizer.
  uint32_t replicas = 0;  // replicas_to_aggregate: gradients of one step; 0: as many as trainers
  uint32_t total = 0;  // total_num_replicas: trainers, backup workers too; 0: as many as there are
  // num_tokens: how many pushes of the first step go on without waiting for its end; `replicas -
  // total` at least, or 0, which is also the default. TensorFlow's default is `replicas`: with it
  // a trainer may push twice in the first step, and its later push is often stale.
  std::optional<uint32_t> tokens;

  uint32_t bound = 0;  // kStaleness: steps that a trainer may be ahead of the slowest

  bool operator==(const UpdateMode&) const = default;
};

// "async", "sync", "sync:replicas=3,total=4,tokens=3" (each may be left out), "staleness:bound=4".
// Throws Error(kUsage) for anything else.
UpdateMode ParseUpdateMode(std::string_view text);
// ParseUpdateMode gives the same mode back.
std::string ToString(const UpdateMode& mode);

// The mode in a job with so many trainers: nothing left out. Throws Error in the given phase when
// the first step of kSync could never end.
UpdateMode Completed(UpdateMode mode, size_t trainers, Phase phase);

}  // namespace tfdist::runtime
