// Values that layers begin with.
#pragma once

#include <cstddef>
#include <random>

#include "runtime/common/tensor.h"

namespace tfdist::runtime {

// Glorot and Bengio (2010): keeps the variance of values and errors alike from layer to layer.
// `inputs`: how many values each output is made of; `outputs`: how many each input goes into.
void FillGlorotUniform(Tensor& kernel, size_t inputs, size_t outputs, std::mt19937_64& random);

}  // namespace tfdist::runtime
