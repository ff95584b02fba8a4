// What lies on hosts, of jobs and beside them, for `clean`.
#pragma once

#include <cstddef>
#include <set>
#include <vector>

#include "cli/clean/machine.h"
#include "cli/link/house.h"
#include "cli/plan/plan.h"

namespace tfdist::cli {

struct HostsSurvey {
  std::vector<HostPlan> answering;  // of those with one folder the first, with the names of all
  std::vector<HostSurvey> hosts;    // of these
  size_t unanswered = 0;
  std::set<Machine> seen;  // those that showed all
  std::set<Machine> silent;
};

// `plan`: each machine once. Prints which hosts did not answer, and which folders were refused.
HostsSurvey SurveyHosts(const Plan& plan);

}  // namespace tfdist::cli
