// How a job that runs differs from the one that was to be started.
#pragma once

#include <string>
#include <vector>

#include "cli/job/job_record.h"

namespace tfdist::cli {

// A line each: "command of worker:[0-3]: tick -> tick2", "worker:[4-5] is new". Tasks of which something else differs are
// shown whole, as `render` knows them, at most three of them.
std::vector<std::string> PlanDifferences(const JobRecord& running, const JobRecord& wanted);

}  // namespace tfdist::cli
