// What earlier jobs left behind goes by itself: orphans, old folders, agents that nobody uses.
#pragma once

#include <filesystem>

#include "base/clock.h"

namespace tfdist::agent {

// Removes from `<base>/jobs` the slots whose newest file is older than a week (logs of an ended job
// are kept that long: DESIGN) and of which no process runs on this host, and from `<base>/bin` the
// agents that were last started two weeks ago. Nothing else: `base` may be a folder in which its
// user keeps other things. What cannot be removed stays, without an error; and so does, for the
// next time, what has not begun to be removed at `deadline`.
void RemoveOld(const std::filesystem::path& base, TimePoint deadline);

// Ends what runs of a job with a folder in `<base>/jobs` when none of tfdist's own processes of
// that job does: somebody killed them all, and no census was taken. Until `deadline`.
void EndOrphans(const std::filesystem::path& base, TimePoint deadline);

// Both, orphans first; what fails is logged, and keeps no job from its start.
void KeepHouse(const std::filesystem::path& base, TimePoint deadline) noexcept;

// An agent's file or a slot's folder is in use now.
void MarkUsed(const std::filesystem::path& path);

}  // namespace tfdist::agent
