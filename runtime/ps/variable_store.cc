#include "runtime/ps/variable_store.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <utility>

#include "base/error.h"

namespace tfdist::runtime {
namespace {

void CheckFinite(const std::vector<TensorSpec>& specs, const Tensors& values) {
  for (size_t i = 0; i < specs.size(); ++i) {
    const auto bad = std::find_if_not(values[i].begin(), values[i].end(),
                                      [](float value) { return std::isfinite(value); });
    if (bad != values[i].end()) {
      throw Error(Phase::kRun, ToString(specs[i]) + ": value " +
                                   std::to_string(bad - values[i].begin()) + " is " +
                                   std::to_string(*bad));
    }
  }
}

void CheckNames(const std::vector<TensorSpec>& specs) {
  std::set<std::string> names;
  for (const TensorSpec& spec : specs) {
    if (!names.insert(spec.name).second) {
      throw Error(Phase::kRun, ToString(spec) + ": there are two of that name");
    }
  }
}

}  // namespace

void VariableStore::Create(std::vector<TensorSpec> specs, Tensors values,
                           const Optimizer& optimizer) {
  CheckNames(specs);
  CheckFinite(specs, values);
  if (created()) {
    if (specs != specs_) {
      throw Error(Phase::kRun, "other variables are there already: was the model changed?");
    }
    return;
  }
  specs_ = std::move(specs);
  values_ = std::move(values);
  optimizer_ = optimizer;
  slots_.resize(values_.size());
  for (size_t i = 0; i < values_.size(); ++i) {
    slots_[i].state = optimizer.initial_state();
    for (size_t slot = 0; slot < optimizer.slot_count(); ++slot) {
      slots_[i].values[slot].assign(values_[i].size(), optimizer.initial_slot_value());
    }
  }
}

void VariableStore::Push(const std::vector<TensorSpec>& specs, const Tensors& gradients) {
  const std::vector<size_t> positions = PositionsOf(specs);
  CheckFinite(specs, gradients);
  for (size_t i = 0; i < positions.size(); ++i) {
    Slots& slots = slots_[positions[i]];
    const OptimizerStep step = optimizer_->NextStep(slots.state);
    optimizer_->Apply(step, {values_[positions[i]], {slots.values[0], slots.values[1]}},
                      gradients[i]);
  }
  ++step_;
}

size_t VariableStore::PositionOf(const TensorSpec& spec) const {
  const auto found = std::find_if(specs_.begin(), specs_.end(), [&](const TensorSpec& candidate) {
    return candidate.name == spec.name;
  });
  if (found == specs_.end()) throw Error(Phase::kRun, ToString(spec) + ": no such variable here");
  if (found->shape != spec.shape) {
    throw Error(Phase::kRun, ToString(spec) + ": the variable here is " + ToString(*found));
  }
  return static_cast<size_t>(found - specs_.begin());
}

std::vector<size_t> VariableStore::PositionsOf(const std::vector<TensorSpec>& specs) const {
  CheckNames(specs);
  std::vector<size_t> positions;
  positions.reserve(specs.size());
  for (const TensorSpec& spec : specs) positions.push_back(PositionOf(spec));
  return positions;
}

}  // namespace tfdist::runtime
