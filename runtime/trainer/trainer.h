// One trainer of the job: takes batches from its shard, computes gradients, pushes and pulls.
#pragma once

#include <optional>

#include "runtime/model/classifier.h"
#include "runtime/options.h"
#include "runtime/say.h"
#include "runtime/tf_config.h"
#include "runtime/trainer/parameter_client.h"

namespace tfdist::runtime {

struct TrainingResult {
  uint64_t global_step = 0;
  uint64_t own_steps = 0;
  std::optional<Quality> test;  // the chief's last evaluation
};

// Trains until the global step has reached `options.steps`; the chief creates the variables and
// evaluates. `secret` absent: no security.
TrainingResult Train(const Options& options, const TfConfig& config,
                     const std::optional<JobSecret>& secret,
                     const ParameterClientOptions& client_options, const Say& say);

}  // namespace tfdist::runtime
