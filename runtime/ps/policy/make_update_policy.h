// The update policy of a server, by the job's update mode.
#pragma once

#include <memory>
#include <set>
#include <string>

#include "runtime/ps/policy/update_policy.h"
#include "runtime/update/update_mode.h"

namespace tfdist::runtime {

// `mode` is complete (see Completed); `trainers` are all of the job, at least one. Null for
// asynchronous updates.
std::unique_ptr<UpdatePolicy> MakeUpdatePolicy(const UpdateMode& mode,
                                               const std::set<std::string>& trainers);

}  // namespace tfdist::runtime
