#include "runtime/model/initial_values.h"

#include <cmath>

namespace tfdist::runtime {

void FillGlorotUniform(Tensor& kernel, size_t inputs, size_t outputs, std::mt19937_64& random) {
  const float limit = std::sqrt(6.0F / static_cast<float>(inputs + outputs));
  std::uniform_real_distribution<float> uniform(-limit, limit);
  for (float& value : kernel) value = uniform(random);
}

}  // namespace tfdist::runtime
