#include "agent/coordinator/lost_hosts.h"

#include <fmt/format.h>

#include <algorithm>

namespace tfdist::agent {
namespace {

using protocol::HostState;
using protocol::JobState;
using protocol::TaskPhase;
using protocol::TaskPlan;

HostState StateOf(const JobState& state, int slot) {
  return state.slots.at(static_cast<size_t>(slot)).state;
}

// At a restart of all tasks those that have succeeded start again too.
bool IsNeeded(const JobState& state, int slot) {
  const bool all = state.phase == protocol::JobPhase::kRestarting;
  return std::any_of(state.plan.tasks.begin(), state.plan.tasks.end(), [&](const TaskPlan& plan) {
    return state.SeatOf(plan) == slot && !plan.may_fail &&
           (all || !HasSucceeded(state.tasks.at(plan.task)));
  });
}

bool IsLostAndNeeded(const JobState& state, int slot) {
  return StateOf(state, slot) == HostState::kLost && IsNeeded(state, slot);
}

bool IsThere(const JobState& state, int slot) {
  const HostState seen = StateOf(state, slot);
  return seen != HostState::kUnknown && seen != HostState::kLost;
}

// Who can run the tasks that the plan gives to `planned`.
std::optional<int> FindHost(const JobState& state, const std::vector<int>& seats, int planned) {
  for (int slot = 0; slot < static_cast<int>(state.slots.size()); ++slot) {
    const bool can = slot == planned || state.plan.slots[static_cast<size_t>(slot)].spare;
    if (can && IsThere(state, slot) && !IsSeated(state, seats, slot)) return slot;
  }
  return std::nullopt;
}

bool HasTasks(const JobState& state, int planned) {
  return std::any_of(state.plan.tasks.begin(), state.plan.tasks.end(),
                     [&](const TaskPlan& plan) { return plan.slot == planned; });
}

}  // namespace

bool HasSucceeded(const protocol::TaskState& task) {
  const bool ended = task.phase == TaskPhase::kExited && task.exit;
  // What ends with 0 because it was told to end has not done its work.
  return ended && !HasFailed(*task.exit) && !task.exit->by_us;
}

bool IsSeated(const JobState& state, const std::vector<int>& seats, int slot) {
  return std::any_of(state.plan.tasks.begin(), state.plan.tasks.end(), [&](const TaskPlan& plan) {
    return seats.at(static_cast<size_t>(plan.slot)) == slot;
  });
}

bool IsAwaited(const JobState& state, const std::vector<int>& seats, int slot) {
  return std::any_of(state.plan.tasks.begin(), state.plan.tasks.end(), [&](const TaskPlan& plan) {
    return seats.at(static_cast<size_t>(plan.slot)) == slot && !plan.may_fail;
  });
}

std::optional<int> FirstLost(const JobState& state) {
  const auto found = std::find_if(state.seats.begin(), state.seats.end(),
                                  [&](int seat) { return IsLostAndNeeded(state, seat); });
  if (found == state.seats.end()) return std::nullopt;
  return *found;
}

std::string WhyLost(const JobState& state, int slot) {
  const auto at = static_cast<size_t>(slot);
  return fmt::format("host {} is lost: {}", state.plan.slots.at(at).host, state.slots.at(at).why);
}

std::optional<std::vector<int>> ReplaceLost(const JobState& state) {
  std::vector<int> seats = state.seats;
  for (int planned = 0; planned < static_cast<int>(seats.size()); ++planned) {
    int& seat = seats[static_cast<size_t>(planned)];
    if (!HasTasks(state, planned) || !IsLostAndNeeded(state, seat)) continue;
    const auto host = FindHost(state, seats, planned);
    if (!host) return std::nullopt;
    seat = *host;
  }
  return seats;
}

}  // namespace tfdist::agent
