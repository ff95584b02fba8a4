// What a trainer is told of the training itself: data, model, length. Every trainer of a job must
// be told the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/update/optimizer_spec.h"
#include "runtime/update/update_mode.h"

namespace tfdist::runtime {

struct TrainingOptions {
  std::string data;           // folder with MNIST's four files
  std::string model = "mlp";  // or "softmax": no hidden layer
  std::vector<size_t> hidden = {128};
  size_t batch = 32;
  uint64_t steps = 2000;  // global, counted over all trainers
  OptimizerSpec optimizer{.learning_rate = 0.2F};
  UpdateMode update_mode;
  uint64_t seed = 1;
  uint64_t eval_every = 500;  // global steps
};

}  // namespace tfdist::runtime
