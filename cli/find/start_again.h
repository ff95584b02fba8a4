// The agent of a host that was restarted, or on which all processes of the job were killed: nobody there starts it again.
#pragma once

#include <string>
#include <vector>

#include "cli/job/job_record.h"

namespace tfdist::cli {

// Starts it in this slot; a line about that. Empty: an agent runs, or it had been told to end. Throws Error where it does not start:
// Refusal(kWrongState) where it may in a moment.
std::string StartAgentAgain(const JobRecord& record, int slot);

struct StartedAgain {
  bool any = false;
  std::vector<std::string>
      lines;  // of each that runs again, and of each host from which the job's folder is gone
};

// The same in these slots, at once, where the host can be reached now and its part of the job is to go on. Its tasks follow by
// the job's rules.
StartedAgain StartAgentsAgain(const JobRecord& record, const std::vector<int>& slots);

}  // namespace tfdist::cli
