// The agent of a host that was restarted, or on which all processes of the job were killed: nobody there starts it again.
#pragma once

#include <string>
#include <vector>

#include "cli/job/job_record.h"

namespace tfdist::cli {

// Starts it in these slots, at once, where the host can be reached now and its part of the job is to go on; a line of each
// that runs again. Its tasks follow by the job's rules.
std::vector<std::string> StartAgentsAgain(const JobRecord& record, const std::vector<int>& slots);

// "tfdist restart JOB @HOST", which does so too.
std::string CommandToStartAgain(const JobRecord& record, int slot);

}  // namespace tfdist::cli
