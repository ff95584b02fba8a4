// What the environment of this process says about its place in the job.
#pragma once

#include <cstdint>
#include <optional>

#include "runtime/tf_config.h"
#include "runtime/transport/keys.h"

namespace tfdist::runtime {

struct TaskEnvironment {
  TfConfig config;
  uint32_t attempt = 1;
  std::optional<JobSecret> secret;  // absent: no security
};

// TF_CONFIG, TFDIST_ATTEMPT and, when `secure`, the file that TFDIST_SECRET_FILE names. Throws
// Error(kConfig) for what this program cannot take part in: no parameter server or no trainer in
// the cluster, a task that is neither, a secret file that is not as it must be. Call it before
// threads are started: it reads the environment.
TaskEnvironment ReadTaskEnvironment(bool secure);

}  // namespace tfdist::runtime
