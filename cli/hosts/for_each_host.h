// Does the same on many hosts at once: a host that does not answer delays no other.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "base/error.h"

namespace tfdist::cli {

// Calls `act` with 0 .. count-1 and returns when all are through: on this thread and up to 31 more,
// fewer where the account is limited to fewer threads. `act` must bound its waits. Whatever it
// throws (a host's answer may be malformed) is the failure of that host alone: element i of the
// result is what act(i) threw, if anything.
std::vector<std::optional<Error>> ForEachHost(size_t count, const std::function<void(size_t)>& act);

}  // namespace tfdist::cli
