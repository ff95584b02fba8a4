// JobState::Apply, the only code that changes a job's state: one function for each kind of event.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "base/failures.h"
#include "job/first_cause.h"
#include "job/snapshot.h"
#include "job/state.h"

namespace tfdist::protocol {
namespace {

// Keeps the newest `most`, of those that are within `window_ms` where that is not 0.
void Remember(std::vector<int64_t>& times, int64_t time_ns, int64_t window_ms, size_t most) {
  const auto is_over = [&](int64_t time) { return (time_ns - time) / 1'000'000 > window_ms; };
  if (window_ms != 0) std::erase_if(times, is_over);
  times.push_back(time_ns);
  if (times.size() > most) times.erase(times.begin());
}

void CountRun(TaskState& task, int64_t end_ns) {
  if (task.phase != TaskPhase::kRunning) return;
  task.longest_run_ns = std::max(task.longest_run_ns, end_ns - task.started_ns);
}

void StartAgain(TaskState& task, int run, int64_t time_ns) {
  CountRun(task, time_ns);
  if (task.exit) task.previous = std::exchange(task.exit, {});
  task.phase = TaskPhase::kWaiting;
  task.started_ns = time_ns;
  task.run = 0;
  task.pid = 0;
  task.ordered = run;
  task.due_ns.reset();
}

class Applier {
 public:
  Applier(JobState& state, const Event& event) : state_(state), event_(event) {}

  void operator()(const event::Other&) {}

  void operator()(const event::Committed& committed) {
    state_.plan = committed.plan;
    LetNoneFailThatDecides();
    state_.phase = JobPhase::kCommitted;
    state_.committed_ns = event_.time_ns;
    state_.slots.assign(state_.plan.slots.size(), {});
    state_.seats.resize(state_.plan.slots.size());
    std::iota(state_.seats.begin(), state_.seats.end(), 0);
    state_.tasks.clear();
    for (const TaskPlan& task : state_.plan.tasks) state_.tasks[task.task];
    OrderAll();
    state_.tally = state_.CountAnew();
  }

  void operator()(const event::Attempt& attempt) {
    if (!attempt.seats.empty()) TakeSeats(attempt.seats);
    state_.attempt = attempt.attempt;
    state_.phase = JobPhase::kRunning;
    state_.gang.reset();
    ForgetCensuses();
    for (auto& [name, task] : state_.tasks) StartAgain(task, 1, event_.time_ns);
    OrderAll();
    state_.tally = state_.CountAnew();
  }

  void operator()(const event::Host& host) {
    Change(host.slot, [&](SlotState& slot) {
      slot.state = host.state;
      slot.why = host.why;
      slot.since_ns = event_.time_ns;
      if (host.state == HostState::kAgentRestarted) ++slot.agent_restarts;
    });
    if (host.state != HostState::kLost) return;
    if (WasSilentBeforeTheBlamed(state_, host.slot)) BlameInstead("", WhyLost(state_, host.slot));
    if (const auto silent_ns = SilentSinceNs(state_, host.slot)) GiveBackSince(*silent_ns);
  }

  void operator()(const event::TaskStarted& started) {
    Change(started.task, [&](TaskState& task) {
      task.attempt = started.attempt;
      task.run = started.run;
      task.phase = TaskPhase::kRunning;
      task.pid = started.pid;
      task.since_ns = task.started_ns = event_.time_ns;
    });
  }

  void operator()(const event::TaskExited& exited) {
    Change(exited.task, [&](TaskState& task) {
      const int64_t end_ns = EndOf(exited, task.started_ns);
      CountRun(task, end_ns);
      task.attempt = exited.attempt;
      task.run = exited.run;
      task.phase = TaskPhase::kExited;
      task.exit = exited.exit;
      task.lost_bytes += exited.exit.lost_bytes;
      task.last_lines = exited.last_lines.value;
      task.since_ns = end_ns;
    });
    const TaskPlan& plan = Plan(exited.task);
    if (FailedBeforeTheBlamed(state_, plan)) BlameInstead(plan.task, WhyFailed(state_, plan));
  }

  void operator()(const event::Restarting& restarting) {
    const int64_t due_ns = event_.time_ns + restarting.delay_ms * 1'000'000;
    if (!restarting.task.empty() && !restarting.asked) Blame(restarting);
    if (!restarting.gang) {
      return Change(restarting.task, [&](TaskState& task) { task.due_ns = due_ns; });
    }
    state_.phase = JobPhase::kRestarting;
    state_.gang = GangRestart{restarting.task, restarting.why, due_ns};
    StopAll();
  }

  void operator()(const event::Run& run) {
    Change(run.task, [&](TaskState& task) { StartAgain(task, run.run, event_.time_ns); });
    Slot(state_.SeatOf(Plan(run.task))).decision = state_.newest_order = event_.number;
  }

  void operator()(const event::Warned&) {
    state_.warned = event_.number;
    OrderAll();
  }

  void operator()(const event::Clock& clock) { Slot(clock.slot).clock = clock; }

  void operator()(const event::Stopping& stopping) {
    if (stopping.force) state_.forced = true;
    OrderAll();
    // The first cause stands: a stop request during a failure does not change the result.
    if (state_.result != JobResult::kNone) return;
    state_.phase = JobPhase::kStopping;
    state_.result = stopping.result;
    state_.why = stopping.why;
    state_.first_task = stopping.task;
    // What a gang restart has stopped already need not be stopped again.
    if (!std::exchange(state_.gang, {})) StopAll();
  }

  void operator()(const event::CensusTaken& taken) {
    Change(taken.slot, [&](SlotState& slot) { slot.census = taken.census; });
    // A lost host that came back after the end is not unreachable any more.
    const bool clear = taken.census.left.empty() && taken.census.unknown.empty();
    if (std::erase(state_.unreachable, taken.slot) > 0 && !clear) {
      state_.unconfirmed.push_back(taken.slot);
    }
  }

  void operator()(const event::Snapshot& snapshot) { Restore(snapshot, state_); }

  void operator()(const event::Ended& ended) {
    state_.phase = JobPhase::kEnded;
    state_.ended_ns = event_.time_ns;
    state_.result = ended.result;
    state_.unconfirmed = ended.unconfirmed;
    state_.unreachable = ended.unreachable;
    OrderAll();
  }

 private:
  SlotState& Slot(int slot) { return state_.slots.at(static_cast<size_t>(slot)); }
  TaskState& Task(const std::string& name) { return state_.tasks.at(name); }

  const TaskPlan& Plan(const std::string& name) {
    return state_.plan.tasks[state_.tally.IndexOf(name)];
  }

  template <typename Body>
  void Change(const std::string& name, Body body) {
    const size_t index = state_.tally.IndexOf(name);
    TaskState& task = Task(name);
    state_.tally.Count(state_.plan, index, task, false);
    body(task);
    state_.tally.Count(state_.plan, index, task, true);
  }

  template <typename Body>
  void Change(int number, Body body) {
    SlotState& slot = Slot(number);
    state_.tally.Count(number, slot, false);
    body(slot);
    state_.tally.Count(number, slot, true);
  }

  // The end of the job waits for what decides it; where no task does, for all. A job whose evaluator has
  // failed for good would else wait for ever.
  void LetNoneFailThatDecides() {
    auto& tasks = state_.plan.tasks;
    const bool any = std::ranges::any_of(tasks, [](const TaskPlan& task) { return task.decides; });
    for (TaskPlan& task : tasks) task.may_fail = task.may_fail && any && !task.decides;
  }

  void OrderAll() { state_.decision = state_.newest_order = event_.number; }

  void TakeSeats(const std::vector<int>& seats) {
    if (seats.size() != state_.seats.size()) throw std::out_of_range("seats");
    for (const int seat : seats) (void)Slot(seat);
    state_.seats = seats;
  }

  void StopAll() {
    state_.stop = event_.number;
    OrderAll();
    ForgetCensuses();
    for (auto& [name, task] : state_.tasks) task.due_ns.reset();
    state_.tally = state_.CountAnew();
  }

  // Its host knows best, but cannot have heard of it before it began, nor tell the future.
  int64_t EndOf(const event::TaskExited& exited, int64_t started_ns) const {
    const int64_t ended_ns = exited.exit.ended_ns;
    if (ended_ns == 0) return event_.time_ns;
    return std::clamp(ended_ns, std::min(started_ns, event_.time_ns), event_.time_ns);
  }

  // What was decided stands; only the cause was another one.
  void BlameInstead(const std::string& task, const std::string& why) {
    if (state_.gang) {
      state_.gang->task = task;
      state_.gang->why = why;
    } else {
      state_.first_task = task;
      state_.why = why;
    }
  }

  // No task's limit is to shrink for what a lost host has caused.
  void GiveBackSince(int64_t time_ns) {
    const auto is_later = [&](int64_t restart_ns) { return restart_ns > time_ns; };
    std::erase_if(state_.gangs_ns, is_later);
    for (auto& [name, task] : state_.tasks) std::erase_if(task.restarts_ns, is_later);
  }

  void ForgetCensuses() {
    for (SlotState& slot : state_.slots) slot.census.reset();
  }

  void Blame(const event::Restarting& restarting) {
    TaskState& task = Task(restarting.task);
    ++task.restarts;
    const RestartRule& rule = Plan(restarting.task).restart;
    Remember(task.restarts_ns, event_.time_ns, rule.window_ms,
             static_cast<size_t>(std::max(rule.limit, 1)));
    if (restarting.gang) Remember(state_.gangs_ns, event_.time_ns, 0, JobState::kMostGangs);
  }

  JobState& state_;
  const Event& event_;
};

}  // namespace

void JobState::Apply(const Event& event) {
  try {
    std::visit(Applier(*this, event), event.body);
    ++applied;
  } catch (const std::out_of_range&) {
    throw ProtocolError(
        Phase::kControl,
        fmt::format("malformed event {} ({}): it names a task or slot outside the plan",
                    event.number, KindOf(event.body)));
  }
}

}  // namespace tfdist::protocol
