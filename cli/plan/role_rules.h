// What TensorFlow allows together in one cluster (run_config.py of tensorflow/estimator, multi_worker_util.py), and what a job needs to
// end.
#pragma once

#include <vector>

#include "cli/plan/role.h"

namespace tfdist::cli {

// Whether a role that its layout does not make may stand beside those that it makes.
bool MayBeAdded(const ClusterFile& file, const RoleTable& table, Problems& problems);

// `roles`: all of them, also those without a task.
void CheckRoles(const ClusterFile& file, const std::vector<Role>& roles, Problems& problems);

// That [restart] and ports speak of roles of the job.
void CheckRoleNames(const ClusterFile& file, const std::vector<Role>& roles, Problems& problems);

}  // namespace tfdist::cli
