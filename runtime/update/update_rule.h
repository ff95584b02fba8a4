// How a gradient changes a variable. Called by the one thread that owns the variable.
#pragma once

#include <span>

namespace tfdist::runtime {

class UpdateRule {
 public:
  virtual ~UpdateRule() = default;
  // Both have the same length.
  virtual void Apply(std::span<float> variable, std::span<const float> gradient) = 0;
};

}  // namespace tfdist::runtime
