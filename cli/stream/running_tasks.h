// Which tasks of a job run: for lines that say what is waited for.
#pragma once

#include <string>
#include <vector>

#include "job/state.h"

namespace tfdist::cli {

// "worker:0 (gpu1), worker:1 (gpu2) and 6 more"; empty: none.
std::string NamesOfRunning(const protocol::JobState& state);

// `task` has ended with 0, as the last one of a role that TensorFlow does not know. Says that the job goes on, which tasks run, and
// which `done` would have ended it. Empty where the job ends, or another task of the role runs.
std::string WhyTheJobGoesOn(const protocol::JobState& state, const std::string& task);

// The chief, or else worker:0, has ended with 0 while other workers run: where they wait for it, they wait for ever. Empty:
// it has not, or the job ends by itself.
std::string WhoMayWaitForAnEndedTask(const protocol::JobState& state);

// Whether the host of that slot has tasks now.
bool IsSeated(const protocol::JobState& state, int slot);

// The slots with tasks whose hosts are lost, of a job that goes on.
std::vector<int> LostHosts(const protocol::JobState& state);

// For people: of the slots of one host that are in one state, the first one.
std::vector<int> OnePerHost(const protocol::JobState& state, const std::vector<int>& slots);

}  // namespace tfdist::cli
