// Which tasks of a job run: for lines that say what is waited for.
#pragma once

#include <string>

#include "job/state.h"

namespace tfdist::cli {

// "worker:0 (gpu1), worker:1 (gpu2) and 6 more"; empty: none.
std::string NamesOfRunning(const protocol::JobState& state);

}  // namespace tfdist::cli
