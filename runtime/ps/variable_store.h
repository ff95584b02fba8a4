// The variables of one server, and the optimizer that changes them. Knows nothing of the network.
// One thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/tensor.h"
#include "runtime/update/optimizer.h"

namespace tfdist::runtime {

class VariableStore {
 public:
  [[nodiscard]] bool created() const { return optimizer_.has_value(); }

  // Takes the variables over. When there are some already they stay as they are, and must be of the
  // same names and shapes (a chief that was started again). Throws Error(kRun), with nothing
  // changed, for two variables of one name, values that are not finite, or another set than before.
  void Create(std::vector<TensorSpec> specs, Tensors values, const Optimizer& optimizer);

  // Applies gradients to the variables of those names, all or none. Throws Error(kRun) for an
  // unknown or repeated name, another shape, or a value that is not finite.
  void Push(const std::vector<TensorSpec>& specs, const Tensors& gradients);

  // In the order of creation.
  [[nodiscard]] const std::vector<TensorSpec>& specs() const { return specs_; }
  [[nodiscard]] const Tensors& values() const { return values_; }
  // How often gradients were applied.
  [[nodiscard]] uint64_t step() const { return step_; }

 private:
  struct Slots {
    std::array<std::vector<float>, 2> values;
    OptimizerState state;
  };

  [[nodiscard]] size_t PositionOf(const TensorSpec& spec) const;
  [[nodiscard]] std::vector<size_t> PositionsOf(const std::vector<TensorSpec>& specs) const;

  std::vector<TensorSpec> specs_;
  Tensors values_;
  std::optional<Optimizer> optimizer_;
  std::vector<Slots> slots_;  // as values_
  uint64_t step_ = 0;
};

}  // namespace tfdist::runtime
