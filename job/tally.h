// What a job's state amounts to, counted: which tasks have failed, which hosts are lost, who is still
// waited for. JobState keeps it up with each event, so that no decision has to look at every task.
// It says nothing that the rest of the state does not: JobState::CountAnew() finds the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "job/plan.h"
#include "job/task_state.h"

namespace tfdist::protocol {

struct JobTally {
  using Time = std::pair<int64_t, size_t>;  // nanoseconds, and the task's index in the plan

  JobTally() = default;
  // Throws std::out_of_range when the plan has a task on a slot that it does not have.
  JobTally(const JobPlan& plan, const std::vector<int>& seats,
           const std::map<std::string, TaskState>& tasks, const std::vector<SlotState>& slots);

  // Of the plan.
  std::unordered_map<std::string, size_t> index;  // of each task in plan.tasks
  std::vector<std::vector<size_t>> planned;  // planned[i]: the tasks that the plan gives slot i
  bool any_decides = false;
  // Of the seats.
  std::vector<std::vector<size_t>> seated;  // seated[i]: the tasks that slot i's host runs
  // Of the tasks. To have succeeded is to have ended with 0, and of its own accord.
  size_t unfinished = 0;       // they have not succeeded
  std::set<size_t> undecided;  // deciding tasks that have not
  std::set<Time> decided;      // deciding tasks that have, by the time of their end
  std::set<Time> failed;  // they have failed, and do not start again yet, by the time of their end
  std::set<Time> served;  // servers that have succeeded, by the time of their end
  std::set<Time> due;     // they start again, alone, at this time
  // Of the slots.
  std::set<int> lost;
  std::set<int> awaited;  // neither lost, nor has a census been taken since the last stop
  std::set<int> unclean;  // the census found what could not be ended

  // The index in the plan's tasks. Throws std::out_of_range.
  [[nodiscard]] size_t IndexOf(const std::string& task) const { return index.at(task); }

  // A task or slot is about to change (`in` is false), or has changed (true).
  void Count(const JobPlan& plan, size_t task, const TaskState& state, bool in);
  void Count(int slot, const SlotState& state, bool in);

  bool operator==(const JobTally&) const = default;
};

}  // namespace tfdist::protocol
