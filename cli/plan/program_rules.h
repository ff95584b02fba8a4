// What each kind of TensorFlow program wants of its cluster, where the file says which kind it is ([task] program).
// TensorFlow itself would only wait, or fail on the hosts. And task types that look like a slip.
#pragma once

#include <string>
#include <vector>

#include "cli/plan/role.h"

namespace tfdist::cli {

// `roles`: all of them, also those without a task. Sources: run_config.py of tensorflow/estimator,
// multi_worker_util.py, parameter_server_strategy_v2.py, server_lib.py.
void CheckProgram(const ClusterFile& file, const std::vector<Role>& roles, Problems& problems);

// A type that is one of TensorFlow's but for the case of letters or one letter ("PS", "workers"): it
// would be a type of its own, with another place in TF_CONFIG, other ports and other restart rules.
void CheckTypeNames(const ClusterFile& file, Problems& problems);

// Said of the user's environment, which local tasks inherit; tasks get the TF_CONFIG of the plan.
// Empty: there is nothing to say.
std::string WarningOfTfConfig(const char* tf_config);

}  // namespace tfdist::cli
