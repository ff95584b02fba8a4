#include "runtime/ps/policy/make_update_policy.h"

#include "runtime/ps/policy/bounded_staleness.h"
#include "runtime/ps/policy/sync_replicas.h"

namespace tfdist::runtime {

std::unique_ptr<UpdatePolicy> MakeUpdatePolicy(const UpdateMode& mode,
                                               const std::set<std::string>& trainers) {
  switch (mode.kind) {
    case UpdateKind::kAsync:
      return nullptr;
    case UpdateKind::kSync:
      return std::make_unique<SyncReplicas>(mode.replicas, trainers);
    case UpdateKind::kStaleness:
      return std::make_unique<BoundedStaleness>(mode.bound);
  }
  return nullptr;
}

}  // namespace tfdist::runtime
