// Loops over many floats, for sums of gradients and their means.
#pragma once

#include <span>

namespace tfdist::runtime {

// Adds `values` to `sum`, which is as long.
void AddTo(std::span<float> sum, std::span<const float> values);
// Divides, as TensorFlow's accumulator does, rather than multiplying by a reciprocal.
void DivideBy(float divisor, std::span<float> values);

}  // namespace tfdist::runtime
