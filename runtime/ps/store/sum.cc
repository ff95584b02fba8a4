#include "runtime/ps/store/sum.h"

#include <cstddef>

namespace tfdist::runtime {

void AddTo(std::span<float> sum, std::span<const float> values) {
  float* to = sum.data();
  const float* from = values.data();
  const size_t count = sum.size();
  for (size_t i = 0; i < count; ++i) to[i] += from[i];
}

void DivideBy(float divisor, std::span<float> values) {
  for (float& value : values) value /= divisor;
}

}  // namespace tfdist::runtime
