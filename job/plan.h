// The plan of a job, as the coordinator keeps it: which tasks there are, on which slots, and what is
// to happen when one of them ends.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "job/bytes.h"

namespace tfdist::protocol {

struct SlotPlan {
  std::string host;     // as the user wrote it, for messages
  std::string address;  // as other hosts reach it
  bool spare = false;   // has no task until a host is lost
};

// What follows from the failure of a task.
enum class RestartPolicy {
  kTask,      // that task alone starts again
  kGang,      // every task stops, then all start again: another attempt
  kNever,     // the job fails
  kExitCode,  // kTask for signals and exit codes from 128 on, kNever for 1 to 127 (as Kubeflow's)
};

struct RestartRule {
  RestartPolicy policy = RestartPolicy::kTask;
  int limit = 3;                // restarts that its failures may cause within `window_ms`
  int64_t window_ms = 600'000;  // 0: within the job's whole life
  int64_t backoff_ms = 2000;    // before the first restart; doubled for each further one
  // A task whose longest run was shorter has never worked: an exit code up to 127 fails the job, whatever the
  // policy. 0: each task counts as one that has worked.
  int64_t worked_after_ms = 0;
};

struct TaskPlan {
  std::string task;
  int slot = 0;
  bool chief = false;
  bool decides = false;   // the job is done when every deciding task has exited with 0
  bool may_fail = false;  // its failure never fails the job (an evaluator)
  bool serves = false;    // a parameter server: it must not end, even with 0, while others need it
  RestartRule restart;
};

enum class OnHostLost {
  kFail,  // the job fails, unless a spare host can take the slot
  kWait,  // the job waits for the host to come back
};

struct JobPlan {
  std::string job;  // id: name, UTC time, 6 hexadecimal digits
  std::string name;
  std::string layout;
  std::string plan_sha256;  // of the rendered plan: tells whether `up` again means the same
  std::vector<SlotPlan> slots;
  std::vector<TaskPlan> tasks;
  OnHostLost on_host_lost = OnHostLost::kFail;
  int64_t host_lost_ms = 11'000;  // a host that is silent for so long is lost
  // A lost host's place is taken once its tasks must have ended: LostTasksLimit().
  bool exclusive = false;
  int64_t orphan_timeout_ms = 300'000;  // an agent that hears nothing for so long ends by itself
  int64_t longest_grace_ms = 10'000;    // of all tasks, between SIGTERM and SIGKILL
  int64_t deadline_ms = 0;              // of the whole job, from the commit; 0: none
  bool deadline_succeeds = false;       // a job whose tasks run then has succeeded
  int64_t warning_ms = 0;  // before the deadline tasks get `warning_signal`; 0: no warning
  int warning_signal = 0;
  int64_t finish_timeout_ms = 0;  // from the first deciding task's end to the last's; 0: none
  int64_t rest_timeout_ms = 0;    // from the last one's end to that of the others, which end then
};

std::string_view NameOf(RestartPolicy policy);
// A host counts as slow after this silence, where it counts as lost after `lost_after`.
std::chrono::milliseconds SlowAfter(std::chrono::milliseconds lost_after);
// For so long, at most, the tasks of a lost host go on: its agent hears nothing from the coordinator, and ends
// them. A host that was suspended, or an agent that was stopped or killed, counts from when it goes on.
std::chrono::milliseconds LostTasksLimit(const JobPlan& plan);
// For so long a lost host is waited for: until its agent must have ended its tasks and itself, so that it cannot come
// back, and they have had a while to end.
std::chrono::milliseconds LostHostLimit(const JobPlan& plan);

void to_json(Json& json, const RestartPolicy& value);
void from_json(const Json& json, RestartPolicy& value);
void to_json(Json& json, const OnHostLost& value);
void from_json(const Json& json, OnHostLost& value);
void to_json(Json& json, const SlotPlan& value);
void from_json(const Json& json, SlotPlan& value);
void to_json(Json& json, const RestartRule& value);
void from_json(const Json& json, RestartRule& value);
void to_json(Json& json, const TaskPlan& value);
void from_json(const Json& json, TaskPlan& value);
void to_json(Json& json, const JobPlan& value);
void from_json(const Json& json, JobPlan& value);

}  // namespace tfdist::protocol
