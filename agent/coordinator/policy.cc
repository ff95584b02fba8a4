#include "agent/coordinator/policy.h"

#include <fmt/format.h>

#include <algorithm>

namespace tfdist::agent {
namespace {

using protocol::JobState;
using protocol::TaskPhase;
using protocol::TaskPlan;
using protocol::TaskState;

bool HasSucceeded(const TaskState& task) {
  return task.phase == TaskPhase::kExited && task.exit && !HasFailed(*task.exit);
}

std::optional<Verdict> JudgeTask(const JobState& state, const TaskPlan& plan) {
  const TaskState& task = state.tasks.at(plan.task);
  if (plan.may_fail || task.phase != TaskPhase::kExited || HasSucceeded(task)) return std::nullopt;
  const std::string& host = state.plan.slots.at(static_cast<size_t>(plan.slot)).host;
  return Verdict{"failed", fmt::format("{} on {}: {}", plan.task, host, Describe(*task.exit)),
                 plan.task};
}

bool IsGone(const protocol::SlotState& slot) {
  return slot.state == "lost" || slot.state == "keeper-lost";
}

bool IsNeeded(const JobState& state, int slot) {
  return std::any_of(state.plan.tasks.begin(), state.plan.tasks.end(), [&](const TaskPlan& plan) {
    return plan.slot == slot && !plan.may_fail && !HasSucceeded(state.tasks.at(plan.task));
  });
}

std::optional<Verdict> JudgeSlot(const JobState& state, int slot) {
  const auto& seen = state.slots.at(static_cast<size_t>(slot));
  if (!IsGone(seen) || !IsNeeded(state, slot)) return std::nullopt;
  return Verdict{"failed",
                 fmt::format("host {} {}: {}", state.plan.slots.at(static_cast<size_t>(slot)).host,
                             seen.state == "lost" ? "is lost" : "lost its keeper", seen.why),
                 ""};
}

bool IsDone(const JobState& state) {
  const auto& tasks = state.plan.tasks;
  const bool any_decides =
      std::any_of(tasks.begin(), tasks.end(), [](const TaskPlan& plan) { return plan.decides; });
  return std::all_of(tasks.begin(), tasks.end(), [&](const TaskPlan& plan) {
    return (any_decides && !plan.decides) || HasSucceeded(state.tasks.at(plan.task));
  });
}

}  // namespace

std::optional<Verdict> Judge(const JobState& state) {
  // Hosts before tasks: when a keeper is killed, its tasks end too, and are not the cause.
  for (size_t slot = 0; slot < state.slots.size(); ++slot) {
    if (auto verdict = JudgeSlot(state, static_cast<int>(slot))) return verdict;
  }
  for (const TaskPlan& plan : state.plan.tasks) {
    if (auto verdict = JudgeTask(state, plan)) return verdict;
  }
  if (IsDone(state)) return Verdict{"succeeded", "all deciding tasks exited with 0", ""};
  return std::nullopt;
}

}  // namespace tfdist::agent
