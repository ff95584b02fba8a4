// Which tasks of a job run: for lines that say what is waited for.
#pragma once

#include <string>

#include "job/state.h"

namespace tfdist::cli {

// "worker:0 (gpu1), worker:1 (gpu2) and 6 more"; empty: none.
std::string NamesOfRunning(const protocol::JobState& state);

// Of a role of the user's own whose last task has just ended well: that the job goes on, with whom, and how its end would be
// the job's. Empty where nothing waits for that, or the job ends. `task` is the one that has ended.
std::string WhyTheJobGoesOn(const protocol::JobState& state, const std::string& task);

}  // namespace tfdist::cli
