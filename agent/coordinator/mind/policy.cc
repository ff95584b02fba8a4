#include "agent/coordinator/mind/policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>
#include <utility>

#include "agent/coordinator/mind/lost_hosts.h"
#include "base/text.h"
#include "job/first_cause.h"

namespace tfdist::agent {
namespace {

using protocol::JobPhase;
using protocol::JobResult;
using protocol::JobState;
using protocol::JobTally;
using protocol::LostHostLimit;
using protocol::RestartPolicy;
using protocol::TaskPhase;
using protocol::TaskPlan;
using protocol::TaskState;
using std::chrono::milliseconds;

constexpr milliseconds kLongestBackOff = std::chrono::minutes(5);
// From here on an exit code means "try again" (128 + signal number, as shells and Kubeflow have it).
constexpr int kFirstTransientCode = 128;

bool EndedByItsProgram(const protocol::TaskExit& exit) {
  return exit.signal == 0 && exit.error.empty() && !exit.by_us && exit.code < kFirstTransientCode;
}

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

// A mistake in the program or its arguments: another start would end in the same way.
bool HasNeverWorked(const TaskPlan& plan, const TaskState& task) {
  const std::chrono::nanoseconds worked_after = milliseconds(plan.restart.worked_after_ms);
  return EndedByItsProgram(*task.exit) && task.longest_run_ns < worked_after.count();
}

bool HasTimeFor(const JobState& state, milliseconds pause, int64_t now_ns) {
  if (state.plan.deadline_ms == 0) return true;
  const milliseconds before_end = milliseconds(state.plan.deadline_ms) - pause;
  return state.warned == 0 && !IsOver(now_ns, state.committed_ns, before_end);
}

RestartPolicy PolicyFor(const TaskPlan& plan, const TaskState& task) {
  const protocol::TaskExit& exit = *task.exit;
  if (exit.permanent || HasNeverWorked(plan, task)) return RestartPolicy::kNever;
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

// Why a task does not start again, behind the words of its failure.
std::string NoRestartWords(const JobState& state, const TaskPlan& plan, RestartPolicy policy,
                           bool has_time) {
  if (HasNeverWorked(plan, state.tasks.at(plan.task))) {
    return fmt::format(
        " (not started again, as it has never run for {}; [restart] may say otherwise)",
        DurationText(milliseconds(plan.restart.worked_after_ms)));
  }
  if (policy == RestartPolicy::kNever) return "";
  if (has_time) return LimitWords(plan.restart);
  return fmt::format(" (not started again, as its deadline of {} is too near)",
                     DurationText(milliseconds(state.plan.deadline_ms)));
}

std::optional<Decision> DecideFailure(const JobState& state, const TaskPlan& plan, int64_t now_ns) {
  const TaskState& task = state.tasks.at(plan.task);
  const protocol::RestartRule& rule = plan.restart;
  const RestartPolicy policy = PolicyFor(plan, task);
  const bool gang = policy == RestartPolicy::kGang;
  // A gang restart is everybody's: one that another task caused counts as well.
  const size_t before =
      CountWithin(gang ? state.gangs_ns : task.restarts_ns, rule.window_ms, now_ns);
  const bool at_limit = before >= static_cast<size_t>(rule.limit);
  const milliseconds pause = BackOff(milliseconds(rule.backoff_ms), before);
  const bool has_time = HasTimeFor(state, pause, now_ns);
  if (policy == RestartPolicy::kNever || at_limit || !has_time) {
    if (plan.may_fail) return std::nullopt;
    return Fail(protocol::WhyFailed(state, plan) + NoRestartWords(state, plan, policy, has_time),
                plan.task);
  }
  return RestartLater{.gang = gang,
                      .task = plan.task,
                      .why = protocol::WhyFailed(state, plan),
                      .delay = pause,
                      .left = rule.limit - static_cast<int>(before) - 1};
}

// Servers that ended with 0 so long ago that they have failed, by the time of their end: a parameter
// server must not end while others train, whatever its exit code.
auto EndOfTooEarly(const JobState& state, int64_t now_ns) {
  const auto& served = state.tally.served;
  if (state.tally.undecided.empty()) return served.begin();
  const int64_t latest_ns = now_ns - std::chrono::nanoseconds(kServerEndGrace).count();
  return served.upper_bound({latest_ns, std::numeric_limits<size_t>::max()});
}

// What the failure that was first calls for. One that may be hides none that came later.
std::optional<Decision> DecideFailures(const JobState& state, int64_t now_ns) {
  auto failed = state.tally.failed.begin();
  auto served = state.tally.served.begin();
  const auto no_failed = state.tally.failed.end();
  const auto no_served = EndOfTooEarly(state, now_ns);
  while (failed != no_failed || served != no_served) {
    const bool is_server = failed == no_failed || (served != no_served && *served < *failed);
    const size_t task = is_server ? (served++)->second : (failed++)->second;
    if (auto decision = DecideFailure(state, state.plan.tasks[task], now_ns)) return decision;
  }
  return std::nullopt;
}

// --- hosts that are lost ---

// Nobody can take a lost host's place, and the plan says to wait until it is back.
bool Waits(const JobState& state) {
  return state.plan.on_host_lost == protocol::OnHostLost::kWait && FirstLost(state) &&
         !ReplaceLost(state);
}

std::optional<Decision> DecideTooLong(const JobState& state, int64_t now_ns) {
  const int lost = *FirstLost(state);
  const int64_t since_ns = state.slots.at(static_cast<size_t>(lost)).since_ns;
  if (!IsOver(now_ns, since_ns, LostHostLimit(state.plan))) return std::nullopt;
  return Fail(fmt::format("{}; by now its agent has ended by itself ([restart] orphan_timeout: {})",
                          protocol::WhyLost(state, lost),
                          DurationText(milliseconds(state.plan.orphan_timeout_ms))));
}

StopJob FailForLost(const JobState& state, int lost) {
  return Fail(fmt::format("{} ([restart] host_lost: {}; on_host_lost: fail)",
                          protocol::WhyLost(state, lost),
                          DurationText(milliseconds(state.plan.host_lost_ms))));
}

std::optional<Decision> DecideLost(const JobState& state) {
  const auto lost = FirstLost(state);
  if (!lost) return std::nullopt;
  const auto seats = ReplaceLost(state);
  if (!seats) return FailForLost(state, *lost);
  std::string why = protocol::WhyLost(state, *lost);
  if (PlacesFreeAt(state, *seats)) {
    why += fmt::format("; exclusive: its tasks start elsewhere {} after that, unless it is back",
                       DurationText(LostTasksLimit(state.plan)));
  }
  return RestartLater{.gang = true, .task = "", .why = std::move(why)};
}

// --- the job's end ---

bool IsDone(const JobState& state) {
  return state.tally.any_decides ? state.tally.undecided.empty() : state.tally.unfinished == 0;
}

// Until when tasks that do not decide, and do not serve others, may go on by themselves.
int64_t RestEndsNs(const JobState& state) {
  const auto& decided = state.tally.decided;
  const int64_t last_ns = decided.empty() ? 0 : decided.rbegin()->first;
  return last_ns + std::chrono::nanoseconds(milliseconds(state.plan.rest_timeout_ms)).count();
}

// One that has not begun yet will: it has been ordered.
bool RestRuns(const JobState& state) {
  return std::ranges::any_of(state.plan.tasks, [&](const TaskPlan& plan) {
    const bool is_rest = !plan.decides && !plan.serves && !plan.may_fail;
    return is_rest && state.tasks.at(plan.task).phase != TaskPhase::kExited;
  });
}

// Of a job that is done. What fails by now fails because the others are gone.
std::optional<Decision> DecideSuccess(const JobState& state, int64_t now_ns) {
  const bool has_time = state.plan.rest_timeout_ms != 0 && now_ns < RestEndsNs(state);
  if (has_time && RestRuns(state)) return std::nullopt;
  return StopJob{JobResult::kSucceeded, std::string(protocol::kAllHaveSucceeded), ""};
}

// Once, and only in time: after a wait for a lost host, say, the deadline may be over.
std::optional<Decision> DecideWarning(const JobState& state, int64_t now_ns) {
  const milliseconds before(state.plan.warning_ms);
  const milliseconds at(state.plan.deadline_ms - before.count());
  if (before.count() == 0 || state.warned != 0) return std::nullopt;
  if (!IsOver(now_ns, state.committed_ns, at)) return std::nullopt;
  const int64_t end_ns = state.committed_ns + state.plan.deadline_ms * 1'000'000;
  return WarnTasks{state.plan.warning_signal, (end_ns - now_ns) / 1'000'000};
}

// What has been stopped, waits, or has failed is no service any more.
bool AllRun(const JobState& state) {
  const bool all = std::ranges::all_of(state.plan.tasks, [&](const TaskPlan& plan) {
    const TaskState& task = state.tasks.at(plan.task);
    return plan.may_fail || task.phase == TaskPhase::kRunning || HasSucceeded(task);
  });
  return all && state.phase == JobPhase::kRunning && !FirstLost(state);
}

std::optional<Decision> DecideDeadline(const JobState& state, int64_t now_ns) {
  const milliseconds limit(state.plan.deadline_ms);
  if (limit.count() == 0 || !IsOver(now_ns, state.committed_ns, limit)) return std::nullopt;
  const std::string why = fmt::format("its deadline of {} has passed", DurationText(limit));
  const bool succeeds = state.plan.deadline_succeeds && AllRun(state);
  if (!succeeds) return Fail(why);
  return StopJob{JobResult::kSucceeded, why + ", which counts as success", ""};
}

// One deciding task ended with 0, and another still runs so long after it.
std::optional<Decision> DecideFinish(const JobState& state, int64_t now_ns) {
  const milliseconds limit(state.plan.finish_timeout_ms);
  if (limit.count() == 0) return std::nullopt;
  const auto& [decided, undecided] = std::tie(state.tally.decided, state.tally.undecided);
  if (decided.empty() || undecided.empty()) return std::nullopt;
  if (!IsOver(now_ns, decided.begin()->first, limit)) return std::nullopt;
  const TaskPlan& first = state.plan.tasks[decided.begin()->second];
  const TaskPlan& late = state.plan.tasks[*undecided.rbegin()];
  // Which has not failed, so it is not the first that did.
  return Fail(fmt::format("{} on {} still runs {} after {} ended (finish_timeout)", late.task,
                          HostOf(state, late), DurationText(limit), first.task));
}

std::optional<Decision> DecideDue(const JobState& state, int64_t now_ns) {
  const auto& due = state.tally.due;
  if (due.empty() || now_ns < due.begin()->first) return std::nullopt;
  const std::string& name = state.plan.tasks[due.begin()->second].task;
  return RunAgain{name, state.tasks.at(name).ordered + 1};
}

// --- by phase ---

std::optional<Decision> JudgeRunning(const JobState& state, int64_t now_ns) {
  if (IsDone(state)) return DecideSuccess(state, now_ns);
  if (auto decision = DecideDeadline(state, now_ns)) return decision;
  if (auto decision = DecideWarning(state, now_ns)) return decision;
  // The job stands still: what fails meanwhile fails because the host is gone.
  if (Waits(state)) return DecideTooLong(state, now_ns);
  // Hosts before tasks, for the same reason.
  if (auto decision = DecideLost(state)) return decision;
  if (auto decision = DecideFailures(state, now_ns)) return decision;
  if (auto decision = DecideFinish(state, now_ns)) return decision;
  return DecideDue(state, now_ns);
}

// The first slot whose tasks are not known to have stopped. Nobody knows what a lost host still runs:
// it is waited for where it is to start tasks, else it hears of the next attempt when it is back.
std::optional<int> FirstNotStopped(const JobState& state, const std::vector<int>& seats) {
  std::optional<int> first;
  if (!state.tally.awaited.empty()) first = *state.tally.awaited.begin();
  for (const int slot : state.tally.lost) {
    if (first && slot > *first) break;
    const bool stopped = state.slots[static_cast<size_t>(slot)].census.has_value();
    if (!stopped && IsAwaited(state, seats, slot)) return slot;
  }
  return first;
}

std::optional<Decision> JudgeRestarting(const JobState& state, int64_t now_ns) {
  if (auto decision = DecideDeadline(state, now_ns)) return decision;
  if (Waits(state)) return DecideTooLong(state, now_ns);
  const auto seats = ReplaceLost(state);
  if (!seats) return FailForLost(state, *FirstLost(state));
  const auto not_stopped = FirstNotStopped(state, *seats);
  for (const int slot : state.tally.unclean) {
    if (not_stopped && slot > *not_stopped) break;
    if (!IsSeated(state, *seats, slot)) continue;
    const auto at = static_cast<size_t>(slot);
    return Fail(fmt::format("host {} cannot start its tasks again: {}", state.plan.slots[at].host,
                            state.slots[at].census->left.front()),
                state.gang->task);
  }
  if (not_stopped) return std::nullopt;
  if (now_ns < std::max(state.gang->due_ns, PlacesFreeAt(state, *seats).value_or(0))) {
    return std::nullopt;
  }
  return NextAttempt{state.gang->why, *seats};
}

// --- when to ask again ---

// The earliest of some times that lie ahead.
class Alarm {
 public:
  explicit Alarm(int64_t now_ns) : now_ns_(now_ns) {}

  void At(int64_t time_ns, milliseconds later = milliseconds(0)) {
    time_ns += std::chrono::nanoseconds(later).count();
    if (time_ns > now_ns_) time_ns_ = std::min(time_ns_.value_or(time_ns), time_ns);
  }
  [[nodiscard]] int64_t now_ns() const { return now_ns_; }
  // So long after the first of `times`, which are in order, for which that lies ahead.
  void AtFirstOf(const std::vector<int64_t>& times, milliseconds later) {
    const int64_t latest_ns = now_ns_ - std::chrono::nanoseconds(later).count();
    const auto first = std::upper_bound(times.begin(), times.end(), latest_ns);
    if (first != times.end()) At(*first, later);
  }
  [[nodiscard]] std::optional<int64_t> time_ns() const { return time_ns_; }

 private:
  int64_t now_ns_;
  std::optional<int64_t> time_ns_;
};

// A task that is at its limit, and may fail, starts again once its window holds fewer restarts.
void SetForWindows(const JobState& state, Alarm& alarm) {
  for (const auto& [since_ns, task] : state.tally.failed) {
    const TaskPlan& plan = state.plan.tasks[task];
    const milliseconds window(plan.restart.window_ms);
    if (window.count() == 0) continue;
    alarm.AtFirstOf(state.gangs_ns, window);
    alarm.AtFirstOf(state.tasks.at(plan.task).restarts_ns, window);
  }
}

void SetForTasks(const JobState& state, Alarm& alarm) {
  const JobTally& tally = state.tally;
  if (!tally.due.empty()) alarm.At(tally.due.begin()->first);
  const auto served = EndOfTooEarly(state, alarm.now_ns());
  if (served != tally.served.end()) alarm.At(served->first, kServerEndGrace);
  if (state.plan.finish_timeout_ms != 0 && !tally.decided.empty()) {
    alarm.At(tally.decided.begin()->first, milliseconds(state.plan.finish_timeout_ms));
  }
  SetForWindows(state, alarm);
}

}  // namespace

std::optional<Decision> Judge(const JobState& state, int64_t now_ns) {
  if (state.phase == JobPhase::kRunning) return JudgeRunning(state, now_ns);
  if (state.phase == JobPhase::kRestarting) return JudgeRestarting(state, now_ns);
  return std::nullopt;
}

std::optional<int64_t> NextDue(const JobState& state, int64_t now_ns) {
  Alarm alarm(now_ns);
  const bool running = state.phase == JobPhase::kRunning;
  if (!running && state.phase != JobPhase::kRestarting) return std::nullopt;
  if (state.plan.deadline_ms != 0)
    alarm.At(state.committed_ns, milliseconds(state.plan.deadline_ms));
  if (running && state.plan.warning_ms != 0 && state.warned == 0)
    alarm.At(state.committed_ns, milliseconds(state.plan.deadline_ms - state.plan.warning_ms));
  if (running && IsDone(state)) {
    alarm.At(RestEndsNs(state));
  } else if (Waits(state)) {
    const auto lost = static_cast<size_t>(*FirstLost(state));
    alarm.At(state.slots[lost].since_ns, LostHostLimit(state.plan));
  } else if (running) {
    SetForTasks(state, alarm);
  } else {
    alarm.At(state.gang->due_ns);
    if (const auto seats = ReplaceLost(state)) alarm.At(PlacesFreeAt(state, *seats).value_or(0));
  }
  return alarm.time_ns();
}

std::vector<RestartLater> RestartsFor(const JobState& state,
                                      const std::vector<std::string>& tasks) {
  if (state.phase == JobPhase::kRestarting) return {};
  const auto takes_all = [&](const std::string& task) {
    return state.plan.tasks[state.tally.IndexOf(task)].restart.policy == RestartPolicy::kGang;
  };
  if (std::ranges::any_of(tasks, takes_all) || tasks.size() == state.plan.tasks.size()) {
    return {{.gang = true, .task = "", .why = "tfdist restart", .asked = true}};
  }
  std::vector<RestartLater> restarts;
  for (const std::string& task : tasks) {
    restarts.push_back({.gang = false, .task = task, .why = "tfdist restart", .asked = true});
  }
  return restarts;
}

milliseconds BackOff(milliseconds base, size_t restarts_before) {
  const milliseconds longest = std::max(base, kLongestBackOff);
  milliseconds delay = base;
  for (size_t i = 0; i < restarts_before && delay < longest; ++i) delay *= 2;
  return std::min(delay, longest);
}

}  // namespace tfdist::agent
