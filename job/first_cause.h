// What happened to tasks, in words: which failed first, and which ended only because of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "job/state.h"

namespace tfdist::protocol {

// Of a task that has exited: "worker:1 on h2: signal 9 (SIGKILL)". A keeper that is killed takes its
// tasks along: then it is the cause, not they.
std::string WhyFailed(const JobState& state, const TaskPlan& task);

// "host h2 is lost: nothing heard for 11 s". Where all other hosts fell silent at once, slot 0's own network
// is the cause.
std::string WhyLost(const JobState& state, int slot);

// From then on tasks of other hosts may have failed because the host of `slot`, which is lost, was silent. nullopt: none
// of them needs it.
std::optional<int64_t> SilentSinceNs(const JobState& state, int slot);

// The host of `slot` has just been lost, and was silent before the task failed that is blamed for the stop or
// the restart under way: the task may well have failed because of it.
bool WasSilentBeforeTheBlamed(const JobState& state, int slot);

// `task` has just failed by itself, before the task that is blamed for the stop or the restart under
// way: so far before that it is no matter of how well the hosts' clocks are known.
bool FailedBeforeTheBlamed(const JobState& state, const TaskPlan& task);

// Why a job has succeeded whose tasks have.
inline constexpr std::string_view kAllHaveSucceeded = "all deciding tasks exited with 0";

// Of a job that ends or has ended; "": its tasks have succeeded, as usual.
std::string WhyItEnded(const JobState& state);

// "all tasks get SIGUSR1, 5m before it".
std::string WarningWords(const event::Warned& warned);

// The tasks that failed by themselves after the first one of a job that has failed, in that order.
std::vector<std::string> Collateral(const JobState& state);

}  // namespace tfdist::protocol
