// The first look at the user's work folder.
#pragma once

#include "cli/deploy/workdir_list.h"
#include "cli/plan/plan.h"

namespace tfdist::cli {

// What would be sent of it; nothing where the plan has none. With `say` a line on stderr tells how
// much that is, and what stays here; warnings come in any case. Throws as ListWorkdir.
WorkdirListing LookThroughWorkdir(const Plan& plan, bool say);

// The warnings only.
void WarnOfWorkdir(const Plan& plan);

}  // namespace tfdist::cli
