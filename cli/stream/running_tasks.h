// Which tasks of a job run: for lines that say what is waited for.
#pragma once

#include <string>

#include "job/state.h"

namespace tfdist::cli {

// "worker:0 (gpu1), worker:1 (gpu2) and 6 more"; empty: none.
std::string NamesOfRunning(const protocol::JobState& state);

// `task` has ended with 0, as the last one of a role that TensorFlow does not know. Says that the job goes on, which tasks run, and
// which `done` would have ended it. Empty where the job ends, or another task of the role runs.
std::string WhyTheJobGoesOn(const protocol::JobState& state, const std::string& task);

}  // namespace tfdist::cli
