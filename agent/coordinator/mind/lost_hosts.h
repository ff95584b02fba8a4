// Which hosts of a job are lost and needed, and who can take their place.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "job/state.h"

namespace tfdist::agent {

// Tasks run on that slot's host, with these seats.
bool IsSeated(const protocol::JobState& state, const std::vector<int>& seats, int slot);

// The same, for tasks without which the job cannot go on.
bool IsAwaited(const protocol::JobState& state, const std::vector<int>& seats, int slot);

// A slot that is lost while tasks on it are not done.
std::optional<int> FirstLost(const protocol::JobState& state);
// The seats once other hosts have taken the place of all that are lost and needed; nullopt when
// there are not enough. A spare host has every task's description, any other that is back after it
// was lost only those of its own slot, which it may take again.
std::optional<std::vector<int>> ReplaceLost(const protocol::JobState& state);

// With these seats other hosts take the place of some whose tasks may still run, and the plan is exclusive:
// the time by which these have ended. nullopt: nobody is to be waited for.
std::optional<int64_t> PlacesFreeAt(const protocol::JobState& state, const std::vector<int>& seats);

}  // namespace tfdist::agent
