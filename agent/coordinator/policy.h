// What a running job's state calls for. This file alone decides when a job is over; restarts of
// tasks and gangs will be decided here too.
#pragma once

#include <optional>
#include <string>

#include "agent/job_state.h"

namespace tfdist::agent {

// The job is to be stopped.
struct Verdict {
  std::string result;  // succeeded | failed
  std::string why;
  std::string task;  // the one that failed first, or ""
};

// nullopt: it goes on. For a job that runs and is not being stopped.
//   a task failed that must not                       -> failed
//   a host (or its keeper) is lost before its tasks were done -> failed
//   every deciding task has exited with 0             -> succeeded
std::optional<Verdict> Judge(const protocol::JobState& state);

}  // namespace tfdist::agent
