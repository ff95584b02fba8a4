// A look at a job's events as they stand, from its coordinator or, once it is over, its folder.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

#include "agent/job_state.h"
#include "cli/job/job_record.h"

namespace tfdist::cli {

struct JobView {
  protocol::JobState state;
  uint64_t events = 0;  // number of the last one in `state`
  bool live = false;    // an agent answered on slot 0
};

// Asks slot 0, for at most `limit`, and notes in the job's record how it fares. `on_event` sees
// each event in order. Throws Error with the host.
JobView LookAt(const JobRecord& record,
               const std::function<void(const protocol::Event&)>& on_event = {},
               std::chrono::milliseconds limit = std::chrono::seconds(30));

}  // namespace tfdist::cli
