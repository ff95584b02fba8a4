// One trainer of the job: takes batches from its shard, computes gradients, pushes and pulls.
#pragma once

#include <optional>

#include "runtime/client.h"
#include "runtime/device/device.h"
#include "runtime/model/sequential.h"
#include "runtime/trainer/training_options.h"

namespace tfdist::runtime {

struct TrainingResult {
  uint64_t global_step = 0;
  uint64_t own_steps = 0;
  std::optional<Quality> test;  // the chief's last evaluation
};

// Trains until the global step has reached `options.steps`; the chief creates the variables and
// evaluates. `client_options` name the job and the task, `device` computes.
TrainingResult Train(const TrainingOptions& options, const ClientOptions& client_options,
                     Device& device);

}  // namespace tfdist::runtime
