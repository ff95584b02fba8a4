#include "cli/stream/running_tasks.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

namespace tfdist::cli {
namespace {

std::string RoleOf(const std::string& task) { return task.substr(0, task.find(':')); }

// Of workers it is usual that they end one after the other; an evaluator and a parameter server decide nothing.
bool IsOfUsersRole(const protocol::TaskPlan& plan) {
  return !plan.chief && !plan.serves && !plan.may_fail && RoleOf(plan.task) != "worker";
}

}  // namespace

std::string NamesOfRunning(const protocol::JobState& state) {
  constexpr size_t kShown = 4;
  std::string text;
  size_t count = 0;
  for (const protocol::TaskPlan& plan : state.plan.tasks) {
    const auto task = state.tasks.find(plan.task);
    if (task == state.tasks.end() || task->second.phase != protocol::TaskPhase::kRunning) continue;
    if (++count > kShown) continue;
    const auto slot = static_cast<size_t>(plan.slot);
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", plan.task,
                        slot < state.plan.slots.size() ? state.plan.slots[slot].host : "?");
  }
  return count > kShown ? fmt::format("{} and {} more", text, count - kShown) : text;
}

std::string WhyTheJobGoesOn(const protocol::JobState& state, const std::string& task) {
  if (state.phase != protocol::JobPhase::kRunning || state.tally.undecided.empty()) return "";
  const std::string role = RoleOf(task);
  const bool has_ended = std::ranges::all_of(state.plan.tasks, [&](const protocol::TaskPlan& plan) {
    if (RoleOf(plan.task) != role) return true;
    return IsOfUsersRole(plan) && HasSucceeded(state.tasks.at(plan.task));
  });
  if (!has_ended) return "";
  const std::string running = NamesOfRunning(state);
  return fmt::format(
      "{} has ended with exit code 0, and the job goes on; {}. Where the end of {} is the job's, "
      "write done = \"{}\"",
      task, running.empty() ? "its other tasks are just starting" : "still running: " + running,
      role, role);
}

std::string WhoMayWaitForAnEndedTask(const protocol::JobState& state) {
  using protocol::TaskPlan;
  const auto& tasks = state.plan.tasks;
  auto first = std::ranges::find_if(tasks, &TaskPlan::chief);
  if (first == tasks.end()) first = std::ranges::find(tasks, "worker:0", &TaskPlan::task);
  const bool is_running = state.phase == protocol::JobPhase::kRunning;
  if (!is_running || first == tasks.end() || state.plan.finish_timeout_ms > 0) return "";
  if (!HasSucceeded(state.tasks.at(first->task))) return "";
  const bool others_run = std::ranges::any_of(tasks, [&](const TaskPlan& plan) {
    return plan.decides && state.tasks.at(plan.task).phase == protocol::TaskPhase::kRunning;
  });
  if (!others_run) return "";
  return fmt::format(
      "{} has ended with exit code 0, and the job goes on; still running: {}. Where they wait for "
      "{}, the job never "
      "ends: `done` says whose end is the job's",
      first->task, NamesOfRunning(state), first->task);
}

bool IsSeated(const protocol::JobState& state, int slot) {
  for (size_t planned = 0; planned < state.seats.size(); ++planned) {
    if (state.seats[planned] == slot && !state.tally.planned[planned].empty()) return true;
  }
  return false;
}

std::vector<int> LostHosts(const protocol::JobState& state) {
  std::vector<int> slots;
  if (state.result != protocol::JobResult::kNone) return slots;
  for (size_t slot = 0; slot < state.slots.size(); ++slot) {
    const bool is_lost = state.slots[slot].state == protocol::HostState::kLost;
    if (is_lost && IsSeated(state, static_cast<int>(slot))) slots.push_back(static_cast<int>(slot));
  }
  return slots;
}

std::vector<int> OnePerHost(const protocol::JobState& state, const std::vector<int>& slots) {
  std::set<std::pair<std::string_view, protocol::HostState>> seen;
  std::vector<int> first;
  for (const int slot : slots) {
    const auto at = static_cast<size_t>(slot);
    if (seen.emplace(state.plan.slots[at].host, state.slots[at].state).second)
      first.push_back(slot);
  }
  return first;
}

}  // namespace tfdist::cli
