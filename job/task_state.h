// What a task's events amount to, and a host's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "job/events.h"

namespace tfdist::protocol {

enum class TaskPhase { kWaiting, kRunning, kExited };

struct TaskState {
  TaskPhase phase = TaskPhase::kWaiting;
  int attempt = 0;
  int run = 0;
  int pid = 0;
  int64_t since_ns = 0;              // wall clock of the last change
  int64_t started_ns = 0;            // of the last start
  int64_t longest_run_ns = 0;        // of all runs that are over
  std::optional<TaskExit> exit;      // of the last run, once it has ended
  std::optional<TaskExit> previous;  // of the run before, in this attempt or an earlier one
  std::string last_lines;            // of a failed run; raw bytes
  uint64_t lost_bytes = 0;           // of the output of all runs (TaskExit::lost_bytes)
  int ordered = 1;                   // the run of this attempt that was ordered last
  std::optional<int64_t> due_ns;  // it has failed, and starts again, alone, at this time or later
  int restarts = 0;               // that its failures caused, of itself or of all tasks
  // The newest of them, within its rule's window and at most as many as its limit, without those for which a lost host is to blame.
  std::vector<int64_t> restarts_ns;
};

struct SlotState {
  HostState state = HostState::kUnknown;
  std::string why;
  int64_t since_ns = 0;
  int agent_restarts = 0;
  std::optional<Census> census;  // since the tasks were told to stop
  uint64_t decision = 0;         // number of the last event that concerns this slot's tasks alone
  std::optional<event::Clock> clock;  // as it was measured last
};

std::string_view TaskPhaseName(TaskPhase phase);
void to_json(Json& json, const TaskPhase& phase);
void from_json(const Json& json, TaskPhase& phase);
// "exit code 3", "exit code 139 (SIGSEGV)", "signal 9 (SIGKILL)", "could not be executed: ...".
std::string Describe(const TaskExit& exit);
bool HasFailed(const TaskExit& exit);
// It has ended with 0, and of its own accord.
bool HasSucceeded(const TaskState& task);

}  // namespace tfdist::protocol
