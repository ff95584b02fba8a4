#include "job/tally.h"

namespace tfdist::protocol {
namespace {

template <typename T>
void Enter(std::set<T>& set, const T& value, bool in) {
  if (in) {
    set.insert(value);
  } else {
    set.erase(value);
  }
}

}  // namespace

JobTally::JobTally(const JobPlan& plan, const std::vector<int>& seats,
                   const std::map<std::string, TaskState>& tasks,
                   const std::vector<SlotState>& slots) {
  planned.resize(slots.size());
  seated.resize(slots.size());
  for (size_t task = 0; task < plan.tasks.size(); ++task) {
    const TaskPlan& one = plan.tasks[task];
    const auto slot = static_cast<size_t>(one.slot);
    index.emplace(one.task, task);
    planned.at(slot).push_back(task);
    seated.at(static_cast<size_t>(seats.at(slot))).push_back(task);
    any_decides = any_decides || one.decides;
    Count(plan, task, tasks.at(one.task), true);
  }
  for (size_t slot = 0; slot < slots.size(); ++slot) {
    Count(static_cast<int>(slot), slots[slot], true);
  }
}

void JobTally::Count(const JobPlan& plan, size_t task, const TaskState& state, bool in) {
  const TaskPlan& one = plan.tasks[task];
  const Time end{state.since_ns, task};
  const bool succeeded = HasSucceeded(state);
  if (!succeeded) unfinished += in ? 1 : -1;
  if (one.decides && succeeded) Enter(decided, end, in);
  if (one.decides && !succeeded) Enter(undecided, task, in);
  if (state.due_ns) return Enter(due, Time{*state.due_ns, task}, in);
  if (succeeded && one.serves) Enter(served, end, in);
  if (!succeeded && state.phase == TaskPhase::kExited) Enter(failed, end, in);
}

void JobTally::Count(int slot, const SlotState& state, bool in) {
  const bool is_lost = state.state == HostState::kLost;
  if (is_lost) Enter(lost, slot, in);
  if (!is_lost && !state.census) Enter(awaited, slot, in);
  if (state.census && !state.census->left.empty()) Enter(unclean, slot, in);
}

}  // namespace tfdist::protocol
