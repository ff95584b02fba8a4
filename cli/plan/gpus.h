// The GPUs of each task.
#pragma once

#include <optional>
#include <vector>

#include "cli/plan/placement.h"
#include "wire/protocol.h"

namespace tfdist::cli {

// The GPUs of one task.
struct Gpus {
  // nullopt: all of its host, or those of its share; else exactly these.
  std::optional<std::vector<std::string>> listed = std::vector<std::string>();
  std::optional<protocol::GpuShare> share;  // decided on the host, which counts what it has
};

// gpus[role][index], shaped as placement.roles.
//
// A role says "auto", N or a list; ps: 0 unless [roles.ps] says more. The only GPU task of a
// machine may say "auto" and sees all that the host lists, or simply all. Several that all say
// "auto" divide the host's list evenly in the order of tasks, or, where there is none, what the
// host finds. N takes from the host's list. A number is given out once; a host that lists it twice
// shares it between two tasks.
std::vector<std::vector<Gpus>> AssignGpus(const ClusterFile& file, const Placement& placement,
                                          const std::vector<int>& machines, Problems& problems);

}  // namespace tfdist::cli
