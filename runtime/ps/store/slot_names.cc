#include "runtime/ps/store/slot_names.h"

#include <memory>
#include <utility>
#include <vector>

namespace tfdist::runtime {

std::string SlotSuffix(OptimizerKind kind, size_t slot) {
  switch (kind) {
    case OptimizerKind::kSgd:
      return "";
    case OptimizerKind::kMomentum:
      return "#momentum";
    case OptimizerKind::kAdagrad:
      return "#accumulator";
    case OptimizerKind::kAdam:
      return slot == 0 ? "#m" : "#v";
  }
  return "";
}

bool KeepsPowers(OptimizerKind kind) { return kind == OptimizerKind::kAdam; }

TensorSource SourceOf(std::string name, const OptimizerState& state) {
  const auto powers = std::make_shared<const std::vector<float>>(
      std::initializer_list<float>{state.beta1_power, state.beta2_power});
  return {{std::move(name), {2}}, {{*powers, powers}}};
}

}  // namespace tfdist::runtime
