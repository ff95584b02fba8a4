// What a job's events amount to. Status, exit code and first cause are computed from here, by the
// coordinator and by the CLI alike; nobody keeps a second account.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agent/protocol.h"

namespace tfdist::protocol {

//   committed -> running -> stopping -> ended
enum class JobPhase { kNone, kCommitted, kRunning, kStopping, kEnded };
enum class TaskPhase { kWaiting, kRunning, kExited };

struct TaskState {
  TaskPhase phase = TaskPhase::kWaiting;
  int attempt = 0;
  int run = 0;
  int pid = 0;
  int64_t since_ns = 0;          // wall clock of the last change
  std::optional<TaskExit> exit;  // of the last run
  std::string last_lines;        // of a failed run; raw bytes
};

struct SlotState {
  std::string
      state;  // connected | slow | lost | agent-restarted | keeper-lost; empty: not heard of yet
  std::string why;
  int agent_restarts = 0;
  std::optional<Census> census;
};

struct JobState {
  JobPlan plan;
  JobPhase phase = JobPhase::kNone;
  int attempt = 0;
  std::string result;      // "" while running; then succeeded | failed | stopped
  std::string why;         // first cause, in words
  std::string first_task;  // the task that failed first, or ""
  bool forced = false;     // to be stopped at once, without grace
  uint64_t decision = 0;   // number of the last event that changes what hosts are to do
  int64_t committed_ns = 0;
  int64_t ended_ns = 0;
  std::map<std::string, TaskState> tasks;
  std::vector<SlotState> slots;
  std::vector<int> unconfirmed;  // slots, once ended
  std::vector<int> unreachable;

  // Events must come in order. Unknown kinds are passed over; a malformed event throws
  // Error(kControl).
  void Apply(const Event& event);
};

std::string_view JobPhaseName(JobPhase phase);
std::string_view TaskPhaseName(TaskPhase phase);
// "exit code 3", "signal 9 (SIGKILL)", "could not be executed: ...".
std::string Describe(const TaskExit& exit);
bool HasFailed(const TaskExit& exit);

}  // namespace tfdist::protocol
