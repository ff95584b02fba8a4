// What is told of a job whose first host, which knows all, does not answer.
#pragma once

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/job/job_record.h"

namespace tfdist::cli {

// The result of a finished job, from this machine's record: returns exit code 0. Of any other job the
// last known state, and what the other hosts know of it: exit code 3. `error`: why the first one does
// not answer.
int PrintLastKnown(const JobRecord& record, const Error& error);

// In the shape of `status --json`, as far as the record goes.
nlohmann::json LastKnownJson(const JobRecord& record);

}  // namespace tfdist::cli
