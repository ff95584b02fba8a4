// The first look at the user's work folder.
#pragma once

#include <vector>

#include "cli/deploy/workdir_list.h"
#include "cli/deploy/workdir_warnings.h"
#include "cli/plan/plan.h"

namespace tfdist::cli {

struct WorkdirLook {
  WorkdirListing listing;
  std::vector<WorkdirWarning> certain;     // for which tasks cannot run
  std::vector<WorkdirWarning> of_scripts;  // for which they probably cannot
};

// What would be sent of it; nothing where the plan has none. With `say` a line on stderr tells how
// much that is, and what stays here; warnings come in any case. Throws as ListWorkdir, and UsageError where a task cannot
// run, for its script is not sent.
WorkdirLook LookThroughWorkdir(const Plan& plan, bool say);

// Says the same; that a task cannot run is a warning, too.
void ShowWorkdir(const Plan& plan);

// Prints the other warnings only.
WorkdirLook WarnOfWorkdir(const Plan& plan);

}  // namespace tfdist::cli
