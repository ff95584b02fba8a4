// What a job's state calls for: this file alone decides when tasks start again, and when a job is
// over. Pure: no clock, no I/O, no memory of its own.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "job/state.h"

namespace tfdist::agent {

// The job is to be stopped.
struct StopJob {
  protocol::JobResult result = protocol::JobResult::kNone;
  std::string why;
  std::string task;  // the one that failed first, or ""
};

// A task is to start again, alone or with all others, after a pause.
struct RestartLater {
  bool gang = false;
  std::string task;  // the one that failed; "": for a lost host, or by the user's wish
  std::string why;
  std::chrono::milliseconds delay{0};  // without jitter
  int left = 0;                        // restarts left to that task after this one
  bool asked = false;
};

// The pause is over: the task starts again.
struct RunAgain {
  std::string task;
  int run = 0;
};

// Everything has stopped, and all start again.
struct NextAttempt {
  std::string why;
  std::vector<int> seats;
};

// The deadline is near: all tasks that run get a signal, once.
struct WarnTasks {
  int signal = 0;
  int64_t left_ms = 0;
};

using Decision = std::variant<StopJob, RestartLater, RunAgain, NextAttempt, WarnTasks>;

// A parameter server that ended with 0 has failed when the tasks that decide the job run on for so
// long: until then the job may be about to end.
inline constexpr std::chrono::seconds kServerEndGrace{5};

// What is to be decided next, at the time `now_ns` (on the clock of the events' times); to be asked
// again once that is applied. nullopt: nothing.
//   running     a task failed       -> by its rule: it alone, all tasks, or the job fails
//               a host is lost      -> a spare host takes its slot, or the plan says "wait" or "fail"
//               the time is over    -> failed; it is nearly over -> tasks are warned
//               all that decide ended with 0 -> succeeded
//   restarting  all have stopped, and the pause is over -> the next attempt
std::optional<Decision> Judge(const protocol::JobState& state, int64_t now_ns);

// Judge has decided nothing at the time `now_ns`: when it may decide something without another
// event; nullopt: never.
std::optional<int64_t> NextDue(const protocol::JobState& state, int64_t now_ns);

// What the user's wish to start `tasks` again calls for. Each by its own rule: one of a gang takes all
// with it. Nothing where all are about to start again anyway.
std::vector<RestartLater> RestartsFor(const protocol::JobState& state,
                                      const std::vector<std::string>& tasks);

// base, 2 base, 4 base ... for the first, second, third restart; 5 minutes at most.
std::chrono::milliseconds BackOff(std::chrono::milliseconds base, size_t restarts_before);

}  // namespace tfdist::agent
