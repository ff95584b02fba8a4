// A job's state as one event, which takes the place of those that led to it.
#pragma once

#include "job/state.h"

namespace tfdist::protocol {

// `state` is what the events up to `last` amount to; the snapshot stands for those from `first` on. It lacks the plan,
// which `committed` has. Last lines of failed tasks come along up to 1 MiB in all, first those of the task that failed first.
Event SnapshotOf(JobState state, const Event& last, uint64_t first);

// `state` becomes what the snapshot has. Throws ProtocolError, and changes nothing, when that does not go with the plan of `state`.
void Restore(const event::Snapshot& snapshot, JobState& state);

}  // namespace tfdist::protocol
