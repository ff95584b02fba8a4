// Hosts whose agents did not tell the first one in time what their tasks do, as one that was stopped (SIGSTOP).
#pragma once

#include <vector>

#include "cli/find/job_view.h"
#include "cli/find/other_hosts.h"
#include "cli/job/job_record.h"

namespace tfdist::cli {

struct UnheardHost {
  int slot = 0;
  HostsWord said;
};

// Of a look at a job that runs (JobView::look). They are asked themselves, once there is one, and have 5 s to say their SSH
// version; those that hear the coordinator were only slow. A lost host is none of them.
std::vector<UnheardHost> AskUnheardHosts(const JobRecord& record, const JobView& view);
// "host gpu2, asked just now: its agent is stopped ...": what they say, a line each.
void PrintUnheardHosts(const JobRecord& record, const JobView& view);

}  // namespace tfdist::cli
