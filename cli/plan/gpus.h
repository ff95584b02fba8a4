// The GPUs of each task.
#pragma once

#include <optional>
#include <vector>

#include "cli/plan/placement.h"

namespace tfdist::cli {

// The GPUs of one task: nullopt = all of its host, else exactly these.
using Gpus = std::optional<std::vector<int>>;

// gpus[role][index], shaped as placement.roles.
//
// A role says "auto", N or a list; ps: 0 unless [roles.ps] says more. The only GPU task of a
// machine may say "auto" and sees all that the host lists, or simply all. Several must say N or a
// list, and N takes from the host's list. A number is given out once; a host that lists it twice
// shares it between two tasks.
std::vector<std::vector<Gpus>> AssignGpus(const ClusterFile& file, const Placement& placement,
                                          const std::vector<int>& machines, Problems& problems);

}  // namespace tfdist::cli
