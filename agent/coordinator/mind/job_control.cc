#include "agent/coordinator/mind/job_control.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "agent/coordinator/mind/report_bounds.h"
#include "wire/refusal.h"

namespace tfdist::agent {
namespace {

using protocol::HostState;
using protocol::JobPhase;
using protocol::JobResult;
using protocol::JobState;
using protocol::TaskPhase;

namespace event = protocol::event;

std::string Silence(std::chrono::milliseconds time) {
  return fmt::format("nothing heard for {} s", time.count() / 1000);
}

// What runs would be ended, and could not start again before that host is back.
void RefuseWhereAHostIsLost(const JobState& state, const std::vector<std::string>& tasks,
                            bool all) {
  for (const protocol::TaskPlan& task : state.plan.tasks) {
    const bool is_meant = all || std::ranges::find(tasks, task.task) != tasks.end();
    const auto seat = static_cast<size_t>(state.SeatOf(task));
    if (!is_meant || task.may_fail || state.slots.at(seat).state != HostState::kLost) continue;
    const std::string what = fmt::format("{} is lost, and {} cannot start before it is back",
                                         state.plan.slots.at(seat).host, task.task);
    throw protocol::Refusal(
        protocol::RefusalKind::kWrongState, Phase::kControl,
        all && tasks.size() < state.plan.tasks.size() ? what + "; all tasks start together" : what,
        "nothing was ended; tfdist status says when it is heard of again");
  }
}

bool IsSilent(HostState state) { return state == HostState::kSlow || state == HostState::kLost; }

}  // namespace

JobControl::JobControl(const JobState& state, size_t slots, const Clock& clock,
                       const JobClock& job_clock, JobControl::Append append, Jitter jitter)
    : state_(state),
      clock_(clock),
      job_clock_(job_clock),
      append_(std::move(append)),
      jitter_(std::move(jitter)),
      roster_(slots, clock.Now()),
      clocks_(slots) {
  if (state_.phase != JobPhase::kNone) {
    roster_.SetLostAfter(std::chrono::milliseconds(state_.plan.host_lost_ms));
  }
}

void JobControl::Begin() {
  if (state_.phase != JobPhase::kCommitted) return;
  roster_.SetLostAfter(std::chrono::milliseconds(state_.plan.host_lost_ms));
  for (size_t slot = 0; slot < roster_.size(); ++slot) {
    if (roster_.heard(slot)) AppendHost(slot, HostState::kConnected, "");
  }
  append_(event::Attempt{.attempt = 1, .why = "start", .seats = {}});
}

// --- what the hosts say ---

void JobControl::OnReport(size_t slot, const HostReport& said) {
  const auto heard = roster_.Hear(slot, said.incarnation, clock_.Now());
  if (heard.restarted && !said.keeper_lost.empty()) clocks_.Forget(slot);
  if (said.clock) clocks_.Hear(slot, *said.clock, job_clock_.NowNs());
  if (state_.phase == JobPhase::kNone) return;
  const HostReport report = Bounded(said);
  NoteContact(slot, heard, report);
  NoteClock(slot, report);
  Decide();
  for (const TaskReport& task : report.tasks) NoteTask(slot, task);
  NoteCensus(slot, report);
  Decide();
}

void JobControl::NoteContact(size_t slot, Roster::Heard heard, const HostReport& report) {
  const HostState known = state_.slots.at(slot).state;
  // Of an agent that was known already it is no news to another coordinator.
  const bool unknown = known == HostState::kUnknown || known == HostState::kLost ||
                       known == HostState::kAgentRestarted;
  const bool new_agent = heard.restarted || (heard.first && unknown);
  if (!report.keeper_lost.empty() && new_agent && known != HostState::kKeeperLost) {
    AppendHost(slot, HostState::kKeeperLost, report.keeper_lost);
  } else if (heard.restarted) {
    AppendHost(slot, HostState::kAgentRestarted, "");
  } else if (known == HostState::kUnknown || IsSilent(known)) {
    AppendHost(slot, HostState::kConnected, "");
  }
}

void JobControl::NoteClock(size_t slot, const HostReport& report) {
  if (!report.clock || state_.phase == JobPhase::kEnded) return;
  const auto news = clocks_.News(slot, state_.slots.at(slot).clock, job_clock_.NowNs());
  if (news) append_(*news);
}

// Its end on the clock of the events' times.
protocol::TaskExit JobControl::Dated(size_t slot, protocol::TaskExit exit) const {
  if (exit.ended_ns != 0) {
    exit.ended_ns = clocks_.ToEventTime(slot, exit.ended_ns).value_or(0);
  }
  return exit;
}

void JobControl::NoteTask(size_t slot, const TaskReport& report) {
  // A host speaks for the tasks that it was given, and for the run that counts.
  const auto found = state_.tally.index.find(report.task);
  if (found == state_.tally.index.end()) return;
  if (state_.SeatOf(state_.plan.tasks[found->second]) != static_cast<int>(slot)) return;
  const auto& known = state_.tasks.at(report.task);
  if (report.attempt != state_.attempt || report.run != known.ordered) return;
  if (report.pid != 0 && known.phase == TaskPhase::kWaiting) {
    append_(event::TaskStarted{report.task, report.attempt, report.run, report.pid});
  }
  if (report.exit && known.phase != TaskPhase::kExited) {
    append_(event::TaskExited{report.task, report.attempt, report.run, Dated(slot, *report.exit),
                              report.last_lines});
  }
}

// What was found after the tasks were told to stop; an earlier census tells nothing of that.
void JobControl::NoteCensus(size_t slot, const HostReport& report) {
  if (!report.census || state_.slots.at(slot).census) return;
  const bool asked_for = GoalNow() != Goal::kRun && report.order >= state_.stop;
  if (!asked_for && !report.swept) return;
  append_(event::CensusTaken{static_cast<int>(slot), *report.census});
}

void JobControl::Tick() {
  const TimePoint now = clock_.Now();
  roster_.Tick(now);
  if (state_.phase == JobPhase::kNone || state_.phase == JobPhase::kEnded) return;
  for (size_t slot = 0; slot < roster_.size(); ++slot) {
    const auto contact = roster_.contact(slot, now);
    const HostState known = state_.slots.at(slot).state;
    if (contact == Roster::Contact::kSlow && !IsSilent(known)) {
      AppendHost(slot, HostState::kSlow, Silence(roster_.slow_after()));
    }
    if (contact == Roster::Contact::kLost && known != HostState::kLost) {
      AppendHost(slot, HostState::kLost, Silence(roster_.lost_after()));
    }
  }
  Decide();
}

// --- what follows ---

void JobControl::RequestStop(const std::string& why, bool force) {
  if (state_.phase == JobPhase::kNone)
    throw protocol::Refusal(protocol::RefusalKind::kWrongState, Phase::kDown,
                            "the job is not committed yet");
  if (state_.phase == JobPhase::kEnded) return;
  const bool escalates = force && !state_.forced;
  if (state_.phase != JobPhase::kStopping || escalates) {
    append_(event::Stopping{JobResult::kStopped, why, "", force});
  }
  Decide();
}

std::vector<protocol::OrderedRun> JobControl::RequestRestart(
    const std::vector<std::string>& tasks) {
  if (state_.phase != JobPhase::kRunning && state_.phase != JobPhase::kRestarting) {
    throw protocol::Refusal(
        protocol::RefusalKind::kWrongState, Phase::kControl,
        fmt::format("the job does not run: it is {}", JobPhaseName(state_.phase)));
  }
  for (const std::string& task : tasks) {
    if (state_.tally.index.contains(task)) continue;
    throw protocol::Refusal(protocol::RefusalKind::kMalformed, Phase::kControl,
                            fmt::format("the job has no task '{}'", task));
  }
  std::vector<protocol::OrderedRun> runs;
  const int attempt = state_.attempt;
  const std::vector<RestartLater> restarts = RestartsFor(state_, tasks);
  if (!restarts.empty()) RefuseWhereAHostIsLost(state_, tasks, restarts.front().gang);
  for (const RestartLater& restart : restarts) Enact(restart);
  const bool all = state_.phase == JobPhase::kRestarting;
  for (const protocol::TaskPlan& plan : state_.plan.tasks) {
    if (!all && std::ranges::find(tasks, plan.task) == tasks.end()) continue;
    const int ordered = state_.tasks.at(plan.task).ordered;
    runs.push_back({plan.task, all ? attempt + 1 : attempt, all ? 1 : ordered + 1});
  }
  Decide();
  return runs;
}

void JobControl::Abandon(const std::string& why) {
  abandoned_ = true;
  judged_.reset();
  if (state_.phase != JobPhase::kNone) RequestStop(why, false);
}

// Most reports change nothing, and cost nothing here.
void JobControl::Decide() {
  if (judged_ == state_.applied && !(due_ns_ && job_clock_.NowNs() >= *due_ns_)) return;
  judged_.reset();
  // Each task can fail and be started again: more at a time would be a mistake of the policy.
  const size_t most = 2 * state_.plan.tasks.size() + 8;
  for (size_t i = 0; i < most && !judged_; ++i) {
    const int64_t now_ns = job_clock_.NowNs();
    if (const auto decision = Judge(state_, now_ns)) {
      Enact(*decision);
    } else {
      judged_ = state_.applied;
      due_ns_ = NextDue(state_, now_ns);
    }
  }
  if (state_.phase == JobPhase::kStopping && Settled()) End();
}

void JobControl::Enact(const Decision& decision) {
  if (const auto* stop = std::get_if<StopJob>(&decision)) {
    append_(event::Stopping{stop->result, stop->why, stop->task, false});
  } else if (const auto* restart = std::get_if<RestartLater>(&decision)) {
    const auto delay_ms =
        static_cast<int64_t>(static_cast<double>(restart->delay.count()) * jitter_());
    append_(event::Restarting{restart->gang, restart->task, restart->why, delay_ms, restart->left,
                              restart->asked});
  } else if (const auto* warn = std::get_if<WarnTasks>(&decision)) {
    append_(event::Warned{warn->signal, warn->left_ms});
  } else if (const auto* again = std::get_if<RunAgain>(&decision)) {
    append_(event::Run{again->task, again->run});
  } else {
    const auto& next = std::get<NextAttempt>(decision);
    append_(event::Attempt{state_.attempt + 1, next.why, next.seats});
  }
}

// Nothing more is to be waited for, from any slot.
bool JobControl::Settled() const {
  return abandoned_ ? !state_.tally.awaited.contains(0) : state_.tally.awaited.empty();
}

bool JobControl::InContact(size_t slot) const {
  return roster_.contact(slot, clock_.Now()) == Roster::Contact::kGood;
}

bool JobControl::Silent(size_t slot) const {
  return Lost(slot) || roster_.contact(slot, clock_.Now()) == Roster::Contact::kLost;
}

bool JobControl::MayRunOn(size_t slot, std::chrono::milliseconds orphan_limit) const {
  if (slot == 0 || abandoned_ || state_.phase != JobPhase::kEnded) return false;
  return !state_.slots.at(slot).census && roster_.silence(slot, clock_.Now()) < orphan_limit;
}

bool JobControl::Lost(size_t slot) const {
  return slot < state_.slots.size() && state_.slots[slot].state == HostState::kLost;
}

void JobControl::End() {
  event::Ended ended{.result = state_.result, .unconfirmed = {}, .unreachable = {}};
  for (size_t slot = 0; slot < roster_.size(); ++slot) {
    const auto& census = state_.slots.at(slot).census;
    if (!census) ended.unreachable.push_back(static_cast<int>(slot));
    const bool clear = census && census->left.empty() && census->unknown.empty();
    if (census && !clear) ended.unconfirmed.push_back(static_cast<int>(slot));
  }
  append_(std::move(ended));
}

void JobControl::AppendHost(size_t slot, HostState state, const std::string& why) {
  append_(event::Host{static_cast<int>(slot), state, why});
}

Goal JobControl::GoalNow() const {
  const bool stopping = state_.phase == JobPhase::kRestarting || state_.result != JobResult::kNone;
  if (!stopping) return Goal::kRun;
  return state_.forced ? Goal::kKill : Goal::kStop;
}

Order JobControl::OrderFor(size_t slot) const {
  Order order;
  if (state_.phase == JobPhase::kNone || state_.phase == JobPhase::kCommitted) return order;
  order.number = OrderNumber(slot);
  order.attempt = state_.attempt;
  order.goal = GoalNow();
  order.over = state_.phase == JobPhase::kEnded;
  order.warned = state_.warned != 0;
  for (const int seat : state_.seats) {
    order.addresses.push_back(state_.plan.slots.at(static_cast<size_t>(seat)).address);
  }
  for (const size_t task : state_.tally.seated.at(slot)) {
    const std::string& name = state_.plan.tasks[task].task;
    order.tasks.push_back({.task = name, .run = state_.tasks.at(name).ordered});
  }
  return order;
}

uint64_t JobControl::OrderNumber(size_t slot) const {
  if (state_.phase == JobPhase::kNone || state_.phase == JobPhase::kCommitted) return 0;
  return std::max(state_.decision, state_.slots.at(slot).decision);
}

}  // namespace tfdist::agent
