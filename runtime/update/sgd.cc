#include "runtime/update/sgd.h"

#include <cassert>

namespace tfdist::runtime {

void Sgd::Apply(std::span<float> variable, std::span<const float> gradient) {
  assert(variable.size() == gradient.size());
  float* const to = variable.data();
  const float* const from = gradient.data();
  const size_t count = variable.size();
  for (size_t i = 0; i < count; ++i) to[i] -= learning_rate_ * from[i];
}

}  // namespace tfdist::runtime
