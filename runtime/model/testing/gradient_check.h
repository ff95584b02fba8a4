// Whether derivatives are right: beside differences of the function itself, on any device.
#pragma once

#include "runtime/data/dataset.h"
#include "runtime/device/device.h"
#include "runtime/model/layer.h"
#include "runtime/model/sequential.h"

namespace tfdist::runtime::testing {

// Expects that Backward gives the derivatives of Forward by each of the layer's variables and by its
// input. Inputs are drawn from a fixed seed, distinct and never near zero. `tolerance` is absolute;
// derivatives are of the order of 1 to 10.
void ExpectTrueGradients(Device& device, Layer& layer, size_t samples, double tolerance = 1e-2);

// Expects that Gradients gives the derivatives of the loss by every value of the model, at the
// values that `seed` begins with. ReLU and max pools bend the loss, at points that a
// difference may go over: up to one derivative in a hundred may be further off.
void ExpectTrueGradients(Sequential& model, const Batch& batch, uint64_t seed,
                         double tolerance = 1e-3);

// Pixels at random, labels in turns.
Batch RandomBatch(size_t samples, size_t pixels, size_t classes);

}  // namespace tfdist::runtime::testing
