// The same for many hosts at once: one that does not answer holds up no other.
#pragma once

#include <cstddef>
#include <functional>

namespace tfdist::cli {

// Calls `act` with 0 .. count-1 and returns when all are through: on this thread and up to 31 more,
// fewer where the account may not have so many. `act` must not throw, and must bound its waits.
void ForEachHost(size_t count, const std::function<void(size_t)>& act);

}  // namespace tfdist::cli
