// What is wrong on the hosts of a plan, from what they have answered: pure, no host is asked here.
#pragma once

#include <cstdint>
#include <vector>

#include "cli/check/finding.h"
#include "cli/check/host_check.h"
#include "cli/plan/plan.h"

namespace tfdist::cli {

// The work folder, of which each slot gets a copy. A host keeps large files a second time, for later jobs.
struct WorkSize {
  uint64_t bytes = 0;
  uint64_t large_bytes = 0;  // each content once
  uint64_t entries = 0;      // files and folders
};

// Errors first, each kind in the order of the hosts. One cause is told once: what follows from it
// is left out, as far as that can be seen. `runs_already`: the job that has the name is of this very plan.
std::vector<Finding> FindingsOf(const Plan& plan, const std::vector<HostReport>& reports,
                                bool runs_already = false, const WorkSize& work = {});

}  // namespace tfdist::cli
