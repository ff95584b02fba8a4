// A member of the job is trusted with its own slot alone: what it reports is cut to what an honest
// agent can say, so that it cannot fill the coordinator's memory and journal.
#pragma once

#include "wire/control.h"

namespace tfdist::agent {

// At most 4 KiB of last lines (the end of them), 1 KiB for an error, 100 lines of census of 200
// bytes each; control characters in errors and census become '?'.
HostReport Bounded(HostReport report);

}  // namespace tfdist::agent
