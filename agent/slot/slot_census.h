// The census of a slot: what its job has left here is ended, and what is not known to be gone is said.
#pragma once

#include <sys/types.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "agent/census/process_table.h"
#include "agent/process/run_records.h"
#include "agent/slot/slot_folder.h"
#include "base/clock.h"
#include "wire/protocol.h"

namespace tfdist::agent {

// A run of this boot whose task, or what that had started, nobody has seen end: its holder was killed, and the keeper too.
struct LostRun {
  std::string name;  // "worker-0, run-1-1"
  RunPids pids;
};
std::vector<LostRun> FindLostRuns(const SlotFolder& folder);

// Processes that a lost run may have left, though they show neither its cookie nor its session: of
// the run's cgroup and its oom_score_adj, younger than the run, and without a parent or a session that
// is younger than it too. They may have another account by now. Those of other accounts that are in its session.
std::vector<ProcessInfo> FindSuspects(const RunPids& run, const std::vector<ProcessInfo>& table);

// Those that run of the slot, as far as that is certain: they have its cookie or are the task of a lost run, or they descend
// from such a process.
std::vector<ProcessInfo> FindSlotProcesses(const SlotFolder& folder,
                                           const std::vector<pid_t>& exclude = {});
bool HasProcesses(const SlotFolder& folder);
// Whether the task of a lost run runs. It may have changed its account, so that its cookie is not believed.
bool HasLostTasks(const SlotFolder& folder);
// Why something of the slot may be left here, so that its folder, and with it all notes of that, has to stay: what runs, what an
// earlier census could not end, what of a lost run cannot be seen or told, containers. An engine is asked, for 10 s at most, where it
// has not told since its last task that there are none. nullopt: nothing is left. Blocks.
std::optional<std::string> WhatMayBeLeft(const SlotFolder& folder, TimePoint deadline);

// Ends what FindSlotProcesses finds: EndProcesses (census.h).
protocol::Census EndFoundProcesses(const SlotFolder& folder, const std::vector<pid_t>& exclude,
                                   TimePoint deadline);

// EndFoundProcesses; then what is in the session of a lost run's task, too. Its containers have
// 30 s more; the census names an engine that has not answered 10 s after `deadline`.
// Blocks: for the files thread.
protocol::Census EndSlotProcesses(const SlotFolder& folder, const SlotInfo& info,
                                  const std::vector<pid_t>& exclude, TimePoint deadline);

}  // namespace tfdist::agent
