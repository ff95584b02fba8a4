// The hash of a plan with all that it sends: a changed program and changed data make another plan.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/deploy/data_parts.h"
#include "cli/deploy/workdir_parts.h"
#include "cli/plan/plan.h"

namespace tfdist::cli {

// `data`: as DataSentBy has it. `workdir`: nullptr where the plan has none.
std::string HashWithContent(const Plan& plan, const std::vector<std::unique_ptr<DataParts>>& data,
                            const WorkdirParts* workdir);

// The same, of what lies here now: reads and packs it. Throws as these do.
std::string HashWithContent(const Plan& plan);

}  // namespace tfdist::cli
