#include "agent/coordinator/job_control.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "agent/coordinator/policy.h"
#include "agent/refusal.h"

namespace tfdist::agent {
namespace {

using protocol::JobPhase;
using protocol::JobState;
using protocol::Json;
using protocol::TaskPhase;
using protocol::TaskPlan;

namespace event = protocol::event;

const TaskPlan* FindTask(const JobState& state, const std::string& name) {
  const auto found = std::find_if(state.plan.tasks.begin(), state.plan.tasks.end(),
                                  [&](const TaskPlan& plan) { return plan.task == name; });
  return found == state.plan.tasks.end() ? nullptr : &*found;
}

Json TaskFields(const TaskReport& report, const char* state) {
  return {
      {"task", report.task}, {"attempt", report.attempt}, {"run", report.run}, {"state", state}};
}

}  // namespace

JobControl::JobControl(const JobState& state, size_t slots, const Clock& clock, Append append)
    : state_(state), clock_(clock), append_(std::move(append)), roster_(slots, clock.Now()) {}

void JobControl::Begin() {
  if (state_.phase != JobPhase::kCommitted) return;
  for (size_t slot = 0; slot < roster_.size(); ++slot) {
    if (roster_.heard(slot)) AppendHost(slot, "connected", "");
  }
  append_(event::kAttempt, {{"attempt", 1}, {"why", "start"}});
}

// --- what the hosts say ---

void JobControl::OnReport(size_t slot, const HostReport& report) {
  const auto heard = roster_.Hear(slot, report.incarnation, clock_.Now());
  if (state_.phase == JobPhase::kNone) return;
  NoteContact(slot, heard, report);
  Decide();
  for (const TaskReport& task : report.tasks) NoteTask(slot, task);
  if (report.census && !state_.slots.at(slot).census) {
    Json fields = *report.census;
    fields["slot"] = slot;
    append_(event::kCensus, std::move(fields));
  }
  Decide();
}

void JobControl::NoteContact(size_t slot, Roster::Heard heard, const HostReport& report) {
  const std::string& known = state_.slots.at(slot).state;
  if (report.keeper_lost && known != "keeper-lost") {
    AppendHost(slot, "keeper-lost", "its keeper was killed, which ended its tasks");
  } else if (heard.restarted) {
    AppendHost(slot, "agent-restarted", "");
  } else if (known.empty() || known == "slow" || known == "lost") {
    AppendHost(slot, "connected", "");
  }
}

void JobControl::NoteTask(size_t slot, const TaskReport& report) {
  const TaskPlan* plan = FindTask(state_, report.task);
  // A host speaks for its own tasks, and for the attempt that counts.
  if (plan == nullptr || plan->slot != static_cast<int>(slot)) return;
  if (report.attempt != state_.attempt) return;
  const auto& known = state_.tasks.at(report.task);
  if (report.run < known.run) return;
  const bool is_new = report.run > known.run;
  if (report.pid != 0 && (is_new || known.phase == TaskPhase::kWaiting)) {
    Json fields = TaskFields(report, "started");
    fields["pid"] = report.pid;
    append_(event::kTask, std::move(fields));
  }
  if (report.exit && (is_new || known.phase != TaskPhase::kExited)) {
    Json fields = TaskFields(report, "exited");
    fields["exit"] = *report.exit;
    if (!report.last_lines.value.empty()) fields["last_lines"] = report.last_lines;
    append_(event::kTask, std::move(fields));
  }
}

void JobControl::Tick() {
  const TimePoint now = clock_.Now();
  roster_.Tick(now);
  if (state_.phase == JobPhase::kNone || state_.phase == JobPhase::kEnded) return;
  for (size_t slot = 0; slot < roster_.size(); ++slot) {
    const auto contact = roster_.contact(slot, now);
    const std::string& known = state_.slots.at(slot).state;
    if (contact == Roster::Contact::kSlow && known != "slow" && known != "lost") {
      AppendHost(slot, "slow", "nothing heard for 4 s");
    }
    if (contact == Roster::Contact::kLost && known != "lost") {
      AppendHost(slot, "lost", "nothing heard for 11 s");
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
  if (state_.phase != JobPhase::kStopping || escalates) AppendStopping("stopped", why, "", force);
  Decide();
}

void JobControl::Abandon(const std::string& why) {
  abandoned_ = true;
  if (state_.phase != JobPhase::kNone) RequestStop(why, false);
}

void JobControl::Decide() {
  if (state_.phase == JobPhase::kRunning) {
    if (const auto verdict = Judge(state_)) {
      AppendStopping(verdict->result, verdict->why, verdict->task, false);
    }
  }
  if (state_.phase != JobPhase::kStopping) return;
  for (size_t slot = 0; slot < roster_.size(); ++slot) {
    if (!Settled(slot)) return;
  }
  End();
}

// Nothing more is to be waited for from this slot.
bool JobControl::Settled(size_t slot) const {
  return state_.slots.at(slot).census || Lost(slot) || (abandoned_ && slot != 0);
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
  return slot < state_.slots.size() && state_.slots[slot].state == "lost";
}

void JobControl::End() {
  std::vector<size_t> unconfirmed;
  std::vector<size_t> unreachable;
  for (size_t slot = 0; slot < roster_.size(); ++slot) {
    const auto& census = state_.slots.at(slot).census;
    if (!census) unreachable.push_back(slot);
    if (census && !census->left.empty()) unconfirmed.push_back(slot);
  }
  append_(event::kEnded,
          {{"result", state_.result}, {"unconfirmed", unconfirmed}, {"unreachable", unreachable}});
}

void JobControl::AppendHost(size_t slot, std::string_view state, const std::string& why) {
  append_(event::kHost, {{"slot", slot}, {"state", state}, {"why", why}});
}

void JobControl::AppendStopping(const std::string& result, const std::string& why,
                                const std::string& task, bool force) {
  append_(event::kStopping, {{"result", result}, {"why", why}, {"task", task}, {"force", force}});
}

Order JobControl::OrderFor(size_t slot) const {
  Order order;
  if (state_.phase == JobPhase::kNone || state_.phase == JobPhase::kCommitted) return order;
  order.number = state_.decision;
  const bool stopping = !state_.result.empty();
  order.host = state_.plan.slots.at(slot).host;
  order.name = state_.plan.name;
  order.attempt = state_.attempt;
  order.goal = !stopping ? Goal::kRun : state_.forced ? Goal::kKill : Goal::kStop;
  order.over = state_.phase == JobPhase::kEnded;
  for (const auto& plan : state_.plan.slots) order.addresses.push_back(plan.address);
  for (const TaskPlan& plan : state_.plan.tasks) {
    if (plan.slot == static_cast<int>(slot)) order.tasks.push_back({.task = plan.task});
  }
  return order;
}

}  // namespace tfdist::agent
