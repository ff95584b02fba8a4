// What a job's events amount to. Status, exit code and first cause are computed from here, by the
// coordinator and by the CLI alike; nobody keeps a second account.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "job/events.h"
#include "job/plan.h"
#include "job/tally.h"
#include "job/task_state.h"

namespace tfdist::protocol {

//   committed -> running -> stopping -> ended
//                |     ^      ^
//                v     |      |
//               restarting ---+      (a gang restart: every task stops, then all start again)
enum class JobPhase { kNone, kCommitted, kRunning, kRestarting, kStopping, kEnded };

// A gang restart under way.
struct GangRestart {
  std::string task;  // whose failure caused it, or ""
  std::string why;
  int64_t due_ns = 0;  // the next attempt begins at this time or later
};

struct JobState {
  JobPlan plan;
  JobPhase phase = JobPhase::kNone;
  int attempt = 0;
  JobResult result = JobResult::kNone;
  std::string why;            // first cause, in words
  std::string first_task;     // the task that failed first, or ""
  bool forced = false;        // to be stopped at once, without grace
  uint64_t decision = 0;      // number of the last event that changes what all hosts are to do
  uint64_t newest_order = 0;  // the largest of `decision` and of all slots'
  uint64_t stop = 0;          // number of the last event that told all tasks to stop
  uint64_t warned = 0;        // number of the event that warned of the deadline; 0: none has
  int64_t committed_ns = 0;
  int64_t ended_ns = 0;
  std::map<std::string, TaskState> tasks;
  std::vector<SlotState> slots;
  std::vector<int>
      seats;  // seats[i]: the slot whose host runs the tasks that the plan gives slot i
  std::optional<GangRestart> gang;
  // The newest gang restarts that tasks caused, at most kMostGangs, without those for which a lost host is to blame.
  std::vector<int64_t> gangs_ns;
  std::vector<int> unconfirmed;  // slots, once ended
  std::vector<int> unreachable;
  JobTally tally;        // of all this
  uint64_t applied = 0;  // how many events

  static constexpr size_t kMostGangs = 1000;

  // Events must come in order. Unknown kinds are passed over; a malformed event throws
  // ProtocolError.
  void Apply(const Event& event);

  // `tally`, counted from the rest.
  [[nodiscard]] JobTally CountAnew() const { return {plan, seats, tasks, slots}; }

  // The slot whose host runs that task in this attempt.
  [[nodiscard]] int SeatOf(const TaskPlan& task) const {
    return seats.at(static_cast<size_t>(task.slot));
  }
};

std::string_view JobPhaseName(JobPhase phase);
void to_json(Json& json, const JobPhase& phase);
void from_json(const Json& json, JobPhase& phase);

}  // namespace tfdist::protocol
