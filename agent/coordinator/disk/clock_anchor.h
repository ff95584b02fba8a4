// Where the clock of a job's events stands in the monotonic one, on disk: a coordinator that is started again goes on from there.
// The wall clock may have jumped meanwhile, and no pause, window or deadline must pass because of that.
#pragma once

#include <cstdint>
#include <filesystem>

#include "base/clock.h"

namespace tfdist::agent {

// What the clock of the events shows now, in nanoseconds since 1970 UTC: by `anchor`, if this boot of the host has written it, else
// by the wall clock, which is written there. Where that cannot be written, the next coordinator has the wall clock alone.
int64_t EventTimeNow(const std::filesystem::path& anchor, const Clock& clock);

}  // namespace tfdist::agent
