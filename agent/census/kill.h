// Ends what descends from this process, whatever it does against it.
#pragma once

#include <sys/types.h>

#include <vector>

#include "agent/census/process_table.h"

namespace tfdist::agent {

// Sends `signal` to that very process, unless it has gone meanwhile. What is not a child of the
// caller could be reaped by its parent at any moment and its pid be given to a stranger: identity
// is checked at the last moment (docs/faults.md), which leaves microseconds.
void SignalProcess(const ProcessId& id, int signal);

// SIGKILL to everything that descends from this process, but for `kept` and what descends from
// those. All are stopped first: what is stopped neither forks nor frees its pid for another fork,
// so a fork bomb runs into its limit and is then killed as a whole. Their process groups get
// each signal too, which catches what was forked since one looked; groups never reach beyond a
// task's own sessions, but for this process's, which is spared. Returns what it found alive; the
// caller reaps and calls again until there is nothing left to reap (as it is a subreaper, what
// double-forks comes to it).
std::vector<ProcessInfo> KillDescendants(const std::vector<pid_t>& kept);

}  // namespace tfdist::agent
