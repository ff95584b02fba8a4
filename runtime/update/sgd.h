// Stochastic gradient descent: variable -= learning_rate * gradient.
#pragma once

#include "runtime/update/update_rule.h"

namespace tfdist::runtime {

class Sgd : public UpdateRule {
 public:
  explicit Sgd(float learning_rate) : learning_rate_(learning_rate) {}
  void Apply(std::span<float> variable, std::span<const float> gradient) override;

 private:
  float learning_rate_;
};

}  // namespace tfdist::runtime
