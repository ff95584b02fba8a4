// The hosts of the Slurm allocation that this process runs in: what salloc, sbatch and srun say in variables (sbatch(1), OUTPUT
// ENVIRONMENT VARIABLES).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/cluster_file/cluster_file.h"
#include "cli/cluster_file/problems.h"

namespace tfdist::cli {

// What stands for them: hosts = "slurm", -H slurm.
inline constexpr std::string_view kHostsOfSlurm = "slurm";

// The number of the allocation's job; empty: this process runs in none.
std::string SlurmJob();

// A host for each node, in Slurm's order. Its slots are its tasks, where the allocation was asked for tasks (--ntasks,
// --ntasks-per-node); else it has one. nullopt, and a problem, outside of an allocation.
std::optional<std::vector<HostEntry>> ReadSlurmHosts(const Where& where, Problems& problems);

}  // namespace tfdist::cli
