// Ports that other jobs of this account have on this host, whether a task listens on them now or not: one that still imports,
// or that waits for its next run, listens later.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "job/task.h"
#include "wire/host_check.h"

namespace tfdist::agent {

struct PortConflict {
  int port = 0;
  protocol::Trouble trouble;  // names the other job
};

// Ports of `tasks` with jobs that run here or are being brought up, whatever tfdist's folder is; not with the jobs `except`
// (ids). Of a job that does not need its ports none counts, and of a spare host those of tasks that have run there. An
// agent whose job has one of the ports is asked whether that job is over, for 3 s at most. Blocks.
// `plan_sha256`: of two jobs from one plan that are brought up at once, only the one that has the name on slot 0's host begins; the
// other one's ports do not count. Empty: all count.
std::vector<PortConflict> FindPortConflicts(const std::vector<protocol::TaskDescription>& tasks,
                                            const std::set<std::string>& except,
                                            const std::string& plan_sha256 = "");

}  // namespace tfdist::agent
