#include "agent/coordinator/policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "agent/coordinator/lost_hosts.h"
#include "base/text.h"

namespace tfdist::agent {
namespace {

using protocol::HostState;
using protocol::JobPhase;
using protocol::JobResult;
using protocol::JobState;
using protocol::RestartPolicy;
using protocol::SlotState;
using protocol::TaskPhase;
using protocol::TaskPlan;
using protocol::TaskState;
using std::chrono::milliseconds;

constexpr milliseconds kLongestBackOff = std::chrono::minutes(5);
// From here on an exit code means "try again" (128 + signal number, as shells and Kubeflow have it).
constexpr int kFirstTransientCode = 128;

bool IsOver(int64_t now_ns, int64_t since_ns, milliseconds limit) {
  return now_ns - since_ns >= std::chrono::nanoseconds(limit).count();
}

StopJob Fail(std::string why, std::string task = "") {
  return {JobResult::kFailed, std::move(why), std::move(task)};
}

const std::string& HostOf(const JobState& state, const TaskPlan& plan) {
  return state.plan.slots.at(static_cast<size_t>(state.SeatOf(plan))).host;
}

// --- tasks that failed ---

bool SomeStillDecide(const JobState& state) {
  return std::any_of(state.plan.tasks.begin(), state.plan.tasks.end(), [&](const TaskPlan& plan) {
    return plan.decides && !HasSucceeded(state.tasks.at(plan.task));
  });
}

// A parameter server must not end while others train, whatever its exit code.
bool EndedTooEarly(const JobState& state, const TaskPlan& plan, int64_t now_ns) {
  const TaskState& task = state.tasks.at(plan.task);
  return plan.serves && IsOver(now_ns, task.since_ns, kServerEndGrace) && SomeStillDecide(state);
}

bool IsFailure(const JobState& state, const TaskPlan& plan, int64_t now_ns) {
  const TaskState& task = state.tasks.at(plan.task);
  if (task.phase != TaskPhase::kExited || task.due_ns) return false;
  return !HasSucceeded(task) || EndedTooEarly(state, plan, now_ns);
}

// "worker:1 on h2: signal 9 (SIGKILL)". A keeper that is killed takes its tasks along: then it is
// the cause, not they.
std::string WhyFailed(const JobState& state, const TaskPlan& plan) {
  const TaskState& task = state.tasks.at(plan.task);
  const SlotState& slot = state.slots.at(static_cast<size_t>(state.SeatOf(plan)));
  if (slot.state == HostState::kKeeperLost && task.started_ns <= slot.since_ns) {
    return fmt::format("host {} lost its keeper: {}", HostOf(state, plan), slot.why);
  }
  const bool was_ended = task.exit->by_us && !HasFailed(*task.exit);
  return fmt::format("{} on {}: {}{}{}", plan.task, HostOf(state, plan),
                     was_ended ? "ended by tfdist, " : "", Describe(*task.exit),
                     HasSucceeded(task) ? ", while other tasks still need it" : "");
}

RestartPolicy PolicyFor(const TaskPlan& plan, const protocol::TaskExit& exit) {
  if (exit.permanent) return RestartPolicy::kNever;
  if (plan.restart.policy != RestartPolicy::kExitCode) return plan.restart.policy;
  const bool permanent = exit.signal == 0 && exit.code > 0 && exit.code < kFirstTransientCode;
  return permanent ? RestartPolicy::kNever : RestartPolicy::kTask;
}

size_t CountWithin(const std::vector<int64_t>& times, int64_t window_ms, int64_t now_ns) {
  if (window_ms == 0) return times.size();
  return static_cast<size_t>(std::count_if(times.begin(), times.end(), [&](int64_t time) {
    return !IsOver(now_ns, time, milliseconds(window_ms));
  }));
}

std::string LimitWords(const protocol::RestartRule& rule) {
  if (rule.limit == 0) return "";
  const std::string window =
      rule.window_ms == 0 ? "" : " within " + DurationText(milliseconds(rule.window_ms));
  return fmt::format(" (after {} restart{}{})", rule.limit, rule.limit == 1 ? "" : "s", window);
}

std::optional<Decision> DecideFailure(const JobState& state, const TaskPlan& plan, int64_t now_ns) {
  const TaskState& task = state.tasks.at(plan.task);
  const protocol::RestartRule& rule = plan.restart;
  const RestartPolicy policy = PolicyFor(plan, *task.exit);
  const bool gang = policy == RestartPolicy::kGang;
  // A gang restart is everybody's: one that another task caused counts as well.
  const size_t before =
      CountWithin(gang ? state.gangs_ns : task.restarts_ns, rule.window_ms, now_ns);
  const bool at_limit = before >= static_cast<size_t>(rule.limit);
  if (policy == RestartPolicy::kNever || at_limit) {
    if (plan.may_fail) return std::nullopt;
    const bool tried = policy != RestartPolicy::kNever;
    return Fail(WhyFailed(state, plan) + (tried ? LimitWords(rule) : ""), plan.task);
  }
  return RestartLater{.gang = gang,
                      .task = plan.task,
                      .why = WhyFailed(state, plan),
                      .delay = BackOff(milliseconds(rule.backoff_ms), before),
                      .left = rule.limit - static_cast<int>(before) - 1};
}

// What the failure that was first calls for.
std::optional<Decision> DecideFailures(const JobState& state, int64_t now_ns) {
  std::optional<Decision> first;
  int64_t first_ns = 0;
  for (const TaskPlan& plan : state.plan.tasks) {
    const int64_t since_ns = state.tasks.at(plan.task).since_ns;
    if (!IsFailure(state, plan, now_ns) || (first && since_ns >= first_ns)) continue;
    if (auto decision = DecideFailure(state, plan, now_ns)) {
      first = std::move(decision);
      first_ns = since_ns;
    }
  }
  return first;
}

// --- hosts that are lost ---

// An agent that hears nothing for so long ends its tasks and itself: it cannot come back. As the
// command tells the agents (deployment.cc), and a while for them to end.
milliseconds ReturnLimit(const JobState& state) {
  const milliseconds orphan_timeout = std::chrono::minutes(5);
  return std::max(orphan_timeout, milliseconds(2 * state.plan.host_lost_ms)) +
         std::chrono::seconds(30);
}

// Nobody can take a lost host's place, and the plan says to wait until it is back.
bool Waits(const JobState& state) {
  return state.plan.on_host_lost == protocol::OnHostLost::kWait && FirstLost(state) &&
         !ReplaceLost(state);
}

std::optional<Decision> DecideTooLong(const JobState& state, int64_t now_ns) {
  const int lost = *FirstLost(state);
  const int64_t since_ns = state.slots.at(static_cast<size_t>(lost)).since_ns;
  if (!IsOver(now_ns, since_ns, ReturnLimit(state))) return std::nullopt;
  return Fail(WhyLost(state, lost) + "; by now its agent has ended by itself");
}

std::optional<Decision> DecideLost(const JobState& state) {
  const auto lost = FirstLost(state);
  if (!lost) return std::nullopt;
  if (!ReplaceLost(state)) return Fail(WhyLost(state, *lost));
  return RestartLater{.gang = true, .task = "", .why = WhyLost(state, *lost)};
}

// --- the job's end ---

bool IsDone(const JobState& state) {
  const auto& tasks = state.plan.tasks;
  const bool any_decides =
      std::any_of(tasks.begin(), tasks.end(), [](const TaskPlan& plan) { return plan.decides; });
  return std::all_of(tasks.begin(), tasks.end(), [&](const TaskPlan& plan) {
    return (any_decides && !plan.decides) || HasSucceeded(state.tasks.at(plan.task));
  });
}

std::optional<Decision> DecideSuccess(const JobState& state) {
  if (!IsDone(state)) return std::nullopt;
  return StopJob{JobResult::kSucceeded, "all deciding tasks exited with 0", ""};
}

std::optional<Decision> DecideDeadline(const JobState& state, int64_t now_ns) {
  const milliseconds limit(state.plan.deadline_ms);
  if (limit.count() == 0 || !IsOver(now_ns, state.committed_ns, limit)) return std::nullopt;
  return Fail(fmt::format("its deadline of {} has passed", DurationText(limit)));
}

// One deciding task ended with 0, and another still runs so long after it.
std::optional<Decision> DecideFinish(const JobState& state, int64_t now_ns) {
  const milliseconds limit(state.plan.finish_timeout_ms);
  if (limit.count() == 0) return std::nullopt;
  const TaskPlan* first = nullptr;
  const TaskPlan* late = nullptr;
  for (const TaskPlan& plan : state.plan.tasks) {
    if (!plan.decides) continue;
    const TaskState& task = state.tasks.at(plan.task);
    if (!HasSucceeded(task)) late = &plan;
    if (!HasSucceeded(task)) continue;
    const bool earlier = first == nullptr || task.since_ns < state.tasks.at(first->task).since_ns;
    if (earlier) first = &plan;
  }
  if (first == nullptr || late == nullptr) return std::nullopt;
  if (!IsOver(now_ns, state.tasks.at(first->task).since_ns, limit)) return std::nullopt;
  return Fail(fmt::format("{} on {} still runs {} after {} ended (finish_timeout)", late->task,
                          HostOf(state, *late), DurationText(limit), first->task),
              late->task);
}

std::optional<Decision> DecideDue(const JobState& state, int64_t now_ns) {
  for (const auto& [name, task] : state.tasks) {
    if (task.due_ns && now_ns >= *task.due_ns) return RunAgain{name, task.ordered + 1};
  }
  return std::nullopt;
}

// --- by phase ---

std::optional<Decision> JudgeRunning(const JobState& state, int64_t now_ns) {
  if (auto decision = DecideSuccess(state)) return decision;
  if (auto decision = DecideDeadline(state, now_ns)) return decision;
  // The job stands still: what fails meanwhile fails because the host is gone.
  if (Waits(state)) return DecideTooLong(state, now_ns);
  // Hosts before tasks, for the same reason.
  if (auto decision = DecideLost(state)) return decision;
  if (auto decision = DecideFailures(state, now_ns)) return decision;
  if (auto decision = DecideFinish(state, now_ns)) return decision;
  return DecideDue(state, now_ns);
}

// A slot whose tasks have stopped as far as they can be known to; false: it is still waited for.
bool HasStopped(const JobState& state, size_t slot, const std::vector<int>& seats) {
  // Nobody knows what a lost host still runs. It hears of the next attempt when it is back.
  const bool left_behind = state.slots[slot].state == HostState::kLost &&
                           !IsAwaited(state, seats, static_cast<int>(slot));
  return left_behind || state.slots[slot].census;
}

std::optional<Decision> JudgeRestarting(const JobState& state, int64_t now_ns) {
  if (auto decision = DecideDeadline(state, now_ns)) return decision;
  if (Waits(state)) return DecideTooLong(state, now_ns);
  const auto seats = ReplaceLost(state);
  if (!seats) return Fail(WhyLost(state, *FirstLost(state)));
  for (size_t slot = 0; slot < state.slots.size(); ++slot) {
    if (!HasStopped(state, slot, *seats)) return std::nullopt;
    const auto& census = state.slots[slot].census;
    const bool starts_tasks = IsSeated(state, *seats, static_cast<int>(slot));
    if (!census || census->left.empty() || !starts_tasks) continue;
    return Fail(fmt::format("host {} cannot start its tasks again: {}", state.plan.slots[slot].host,
                            census->left.front()),
                state.gang->task);
  }
  if (now_ns < state.gang->due_ns) return std::nullopt;
  return NextAttempt{state.gang->why, *seats};
}

}  // namespace

std::optional<Decision> Judge(const JobState& state, int64_t now_ns) {
  if (state.phase == JobPhase::kRunning) return JudgeRunning(state, now_ns);
  if (state.phase == JobPhase::kRestarting) return JudgeRestarting(state, now_ns);
  return std::nullopt;
}

milliseconds BackOff(milliseconds base, size_t restarts_before) {
  const milliseconds longest = std::max(base, kLongestBackOff);
  milliseconds delay = base;
  for (size_t i = 0; i < restarts_before && delay < longest; ++i) delay *= 2;
  return std::min(delay, longest);
}

}  // namespace tfdist::agent
