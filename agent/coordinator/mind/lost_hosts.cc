#include "agent/coordinator/mind/lost_hosts.h"

#include <algorithm>
#include <chrono>

namespace tfdist::agent {
namespace {

using protocol::HostState;
using protocol::JobState;
using protocol::TaskPlan;

HostState StateOf(const JobState& state, int slot) {
  return state.slots.at(static_cast<size_t>(slot)).state;
}

// At a restart of all tasks those that have succeeded start again too.
bool IsNeeded(const JobState& state, int slot) {
  const bool all = state.phase == protocol::JobPhase::kRestarting;
  const auto& tasks = state.tally.seated.at(static_cast<size_t>(slot));
  return std::any_of(tasks.begin(), tasks.end(), [&](size_t task) {
    const TaskPlan& plan = state.plan.tasks[task];
    return !plan.may_fail && (all || !HasSucceeded(state.tasks.at(plan.task)));
  });
}

bool IsLostAndNeeded(const JobState& state, int slot) {
  return StateOf(state, slot) == HostState::kLost && IsNeeded(state, slot);
}

bool IsThere(const JobState& state, int slot) {
  const HostState seen = StateOf(state, slot);
  return seen != HostState::kUnknown && seen != HostState::kLost;
}

// Which host can run the tasks that the plan gives to `planned`.
std::optional<int> FindHost(const JobState& state, const std::vector<int>& seats, int planned) {
  for (int slot = 0; slot < static_cast<int>(state.slots.size()); ++slot) {
    const bool can = slot == planned || state.plan.slots[static_cast<size_t>(slot)].spare;
    if (can && IsThere(state, slot) && !IsSeated(state, seats, slot)) return slot;
  }
  return std::nullopt;
}

bool HasTasks(const JobState& state, int planned) {
  return !state.tally.planned[static_cast<size_t>(planned)].empty();
}

bool MayFail(const JobState& state, size_t task) { return state.plan.tasks[task].may_fail; }

}  // namespace

bool IsSeated(const JobState& state, const std::vector<int>& seats, int slot) {
  for (size_t planned = 0; planned < seats.size(); ++planned) {
    if (seats[planned] == slot && !state.tally.planned[planned].empty()) return true;
  }
  return false;
}

bool IsAwaited(const JobState& state, const std::vector<int>& seats, int slot) {
  for (size_t planned = 0; planned < seats.size(); ++planned) {
    if (seats[planned] != slot) continue;
    const auto& tasks = state.tally.planned[planned];
    const bool may_all_fail =
        std::all_of(tasks.begin(), tasks.end(), [&](size_t task) { return MayFail(state, task); });
    if (!may_all_fail) return true;
  }
  return false;
}

std::optional<int> FirstLost(const JobState& state) {
  if (state.tally.lost.empty()) return std::nullopt;
  const auto found = std::find_if(state.seats.begin(), state.seats.end(),
                                  [&](int seat) { return IsLostAndNeeded(state, seat); });
  if (found == state.seats.end()) return std::nullopt;
  return *found;
}

std::optional<std::vector<int>> ReplaceLost(const JobState& state) {
  std::vector<int> seats = state.seats;
  if (state.tally.lost.empty()) return seats;
  for (int planned = 0; planned < static_cast<int>(seats.size()); ++planned) {
    int& seat = seats[static_cast<size_t>(planned)];
    if (!HasTasks(state, planned) || !IsLostAndNeeded(state, seat)) continue;
    const auto host = FindHost(state, seats, planned);
    if (!host) return std::nullopt;
    seat = *host;
  }
  return seats;
}

std::optional<int64_t> PlacesFreeAt(const JobState& state, const std::vector<int>& seats) {
  if (!state.plan.exclusive || seats == state.seats) return std::nullopt;
  const std::chrono::nanoseconds limit = LostTasksLimit(state.plan);
  std::optional<int64_t> free_ns;
  for (size_t planned = 0; planned < seats.size(); ++planned) {
    if (seats[planned] == state.seats[planned]) continue;
    const protocol::SlotState& lost = state.slots[static_cast<size_t>(state.seats[planned])];
    if (lost.census) continue;  // it had ended them before it was lost
    free_ns = std::max(free_ns.value_or(0), lost.since_ns + limit.count());
  }
  return free_ns;
}

}  // namespace tfdist::agent
