#include "agent/coordinator/testing/journal_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <tuple>
#include <variant>

#include "agent/coordinator/mind/policy.h"
#include "job/snapshot.h"

namespace tfdist::agent {
namespace {

namespace event = protocol::event;
using protocol::Event;
using protocol::HostState;
using protocol::JobPhase;
using protocol::JobResult;
using protocol::JobState;
using protocol::KindOf;
using protocol::RestartPolicy;
using protocol::TaskPhase;
using protocol::TaskPlan;
using protocol::TaskState;

struct Arrow {
  JobPhase from;
  std::string_view kind;  // of the event
  JobPhase to;
};

// The job's. No other event changes its phase.
constexpr Arrow kArrows[] = {
    {JobPhase::kNone, event::kCommitted, JobPhase::kCommitted},
    {JobPhase::kCommitted, event::kAttempt, JobPhase::kRunning},
    {JobPhase::kRunning, event::kRestarting, JobPhase::kRestarting},
    {JobPhase::kRestarting, event::kAttempt, JobPhase::kRunning},
    {JobPhase::kCommitted, event::kStopping, JobPhase::kStopping},
    {JobPhase::kRunning, event::kStopping, JobPhase::kStopping},
    {JobPhase::kRestarting, event::kStopping, JobPhase::kStopping},
    {JobPhase::kStopping, event::kEnded, JobPhase::kEnded},
};

bool IsArrow(JobPhase from, std::string_view kind, JobPhase to) {
  return std::ranges::any_of(kArrows, [&](const Arrow& arrow) {
    return arrow.from == from && arrow.kind == kind && arrow.to == to;
  });
}

// What a coordinator writes for a decision, with a jitter of 1.
struct Written {
  const JobState& state;

  event::Body operator()(const StopJob& stop) const {
    return event::Stopping{stop.result, stop.why, stop.task, false};
  }
  event::Body operator()(const RestartLater& later) const {
    return event::Restarting{later.gang,          later.task, later.why,
                             later.delay.count(), later.left, later.asked};
  }
  event::Body operator()(const RunAgain& again) const { return event::Run{again.task, again.run}; }
  event::Body operator()(const NextAttempt& next) const {
    return event::Attempt{state.attempt + 1, next.why, next.seats};
  }
  event::Body operator()(const WarnTasks& warn) const {
    return event::Warned{warn.signal, warn.left_ms};
  }
};

// By the policy: not by a user, nor by what hosts report.
bool IsOfThePolicy(const JobState& before, const event::Body& body) {
  if (const auto* stopping = std::get_if<event::Stopping>(&body)) {
    return stopping->result != JobResult::kStopped;
  }
  if (std::holds_alternative<event::Attempt>(body)) return before.phase != JobPhase::kCommitted;
  if (const auto* restarting = std::get_if<event::Restarting>(&body)) return !restarting->asked;
  return std::holds_alternative<event::Run>(body) || std::holds_alternative<event::Warned>(body);
}

// One journal, read from its first event on.
class Reader {
 public:
  static constexpr uint64_t kBetweenSnapshots = 3;  // each one is costly

  std::string Read(const Event& event) {
    broken_.clear();
    const JobPhase before = state_.phase;
    if (FirstOf(event) != number_ + 1 || event.number <= number_) Break("it has the wrong number");
    number_ = event.number;
    if (event.time_ns < time_ns_) Break("time runs backwards");
    time_ns_ = event.time_ns;
    CheckReplay(event);
    std::visit([&](const auto& body) { Check(body); }, event.body);
    if (!broken_.empty()) return broken_;
    // As it is read from disk.
    state_.Apply(protocol::Json(event).get<Event>());
    const std::string_view kind = KindOf(event.body);
    const bool is_snapshot = kind == event::kSnapshot;
    if (state_.phase != before && !is_snapshot && !IsArrow(before, kind, state_.phase)) {
      Break("no arrow of the diagram leads there");
    }
    if (event.number % kBetweenSnapshots == 0) GoOnFromSnapshot(event);
    return broken_;
  }
  [[nodiscard]] const JobState& state() const { return state_; }

 private:
  void Break(const std::string& rule) {
    if (broken_.empty()) broken_ = rule;
  }

  // Whatever is decided next rests on what a long log would have in the place of all these events.
  void GoOnFromSnapshot(const Event& event) {
    JobState again;
    again.plan = state_.plan;
    again.phase = JobPhase::kCommitted;
    again.Apply(protocol::Json(SnapshotOf(state_, event, 1)).get<Event>());
    again.applied = state_.applied;
    if (Digest(again) != Digest(state_) || again.tally != state_.tally) {
      Break("its snapshot is another state");
    }
    state_ = std::move(again);
  }

  const TaskPlan& Plan(const std::string& task) const {
    return state_.plan.tasks[state_.tally.IndexOf(task)];
  }
  [[nodiscard]] bool IsRunning() const { return state_.phase == JobPhase::kRunning; }

  void CheckReplay(const Event& event) {
    if (!IsOfThePolicy(state_, event.body)) return;
    const auto decision = Judge(state_, event.time_ns);
    if (!decision) return Break("a replay decides nothing where this was decided");
    const auto again = std::visit(Written{state_}, *decision);
    const auto fields = [&](const event::Body& body) {
      return FieldsOf(Event{event.number, event.time_ns, body});
    };
    if (KindOf(again) != KindOf(event.body) || fields(again) != fields(event.body)) {
      Break("a replay decides otherwise: " + fields(again).dump());
    }
  }

  template <typename Other>
  void Check(const Other& /*body*/) {}

  void Check(const event::Host& host) {
    if (host.state == HostState::kLost && host.why.empty()) Break("a loss without a cause");
  }

  void Check(const event::TaskStarted& started) {
    CheckRun(started.task, started.attempt, started.run);
    if (state_.tasks.at(started.task).phase != TaskPhase::kWaiting) Break("it has started already");
  }

  void Check(const event::TaskExited& exited) {
    CheckRun(exited.task, exited.attempt, exited.run);
    if (state_.tasks.at(exited.task).phase == TaskPhase::kExited) Break("it has ended already");
  }

  // Messages of another attempt or run count for nothing.
  void CheckRun(const std::string& task, int attempt, int run) {
    if (attempt != state_.attempt || run != state_.tasks.at(task).ordered) {
      Break("it is of a run that does not count");
    }
  }

  void Check(const event::Restarting& restarting) {
    if (!IsRunning()) Break("a restart of a job that does not run");
    if (restarting.why.empty()) Break("a restart without a cause");
    if (restarting.asked) return;
    if (restarting.task.empty()) {
      if (state_.tally.lost.empty()) Break("all start again for a lost host, and none is lost");
      return;
    }
    const TaskState& task = state_.tasks.at(restarting.task);
    const TaskPlan& plan = Plan(restarting.task);
    if (task.phase != TaskPhase::kExited) return Break("a task that has not ended starts again");
    if (HasSucceeded(task) && !plan.serves) Break("a task that has succeeded starts again");
    if (task.exit->permanent) Break("a command that cannot be executed is tried again");
    if (plan.restart.policy == RestartPolicy::kNever) Break("it is never to start again");
    if (restarting.left < 0) Break("its limit has been reached");
  }

  void Check(const event::Run& run) {
    const TaskState& task = state_.tasks.at(run.task);
    if (!IsRunning()) Break("a task starts in a job that does not run");
    if (!task.due_ns || time_ns_ < *task.due_ns) Break("it starts before its pause is over");
    if (run.run != task.ordered + 1) Break("a run is left out, or given twice");
  }

  void Check(const event::Attempt& attempt) {
    if (attempt.attempt != state_.attempt + 1) Break("an attempt is left out, or given twice");
    if (attempt.why.empty()) Break("an attempt without a cause");
    if (state_.gang && time_ns_ < state_.gang->due_ns) Break("it begins before its pause is over");
  }

  void Check(const event::Stopping& stopping) {
    if (stopping.why.empty()) Break("the end has no cause");
    if (state_.phase != JobPhase::kStopping) return;
    if (!stopping.force || state_.forced) Break("the end is decided twice");
  }

  void Check(const event::Ended& ended) {
    if (ended.result != state_.result) Break("it ends with another result than was decided");
    if (ended.result == JobResult::kFailed && state_.why.empty()) Break("a failure has no cause");
  }

  JobState state_;
  uint64_t number_ = 0;
  int64_t time_ns_ = 0;
  std::string broken_;
};

}  // namespace

std::string Digest(const JobState& state) {
  std::string text = fmt::format("{} {} {} {} {} {}", static_cast<int>(state.phase), state.attempt,
                                 NameOf(state.result), state.why, state.decision, state.stop);
  for (const auto& [name, task] : state.tasks) {
    text += fmt::format("; {} {} {} {} {}", name, static_cast<int>(task.phase), task.run,
                        task.ordered, task.due_ns.value_or(0));
  }
  for (const auto& slot : state.slots) {
    text += fmt::format("; {} {}", NameOf(slot.state), slot.census.has_value());
  }
  for (const int seat : state.seats) text += fmt::format(" {}", seat);
  return text;
}

std::string BrokenRule(const std::vector<Event>& events, const JobState& live) {
  Reader reader;
  for (const Event& event : events) {
    const std::string broken = reader.Read(event);
    if (broken.empty()) continue;
    return fmt::format("event {} ({}): {}", event.number, KindOf(event.body), broken);
  }
  const bool same = Digest(reader.state()) == Digest(live) && reader.state().tally == live.tally;
  return same ? "" : "a replay of the journal leads elsewhere";
}

}  // namespace tfdist::agent
