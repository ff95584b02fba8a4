#include "cli/show/story.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <optional>
#include <utility>
#include <variant>

#include "cli/show/report.h"
#include "cli/stream/host_fold.h"
#include "cli/stream/running_tasks.h"

namespace tfdist::cli {
namespace {

namespace event = protocol::event;
using protocol::HostState;
using protocol::JobPhase;
using protocol::JobState;
using protocol::TaskPhase;

constexpr size_t kMostIncidentsKept = 1000;
constexpr size_t kMostFailures = 1000;  // of one attempt
// A task may notice so late that another one is gone: a collective operation that times out, say.
constexpr std::chrono::nanoseconds kMayBeMissed = std::chrono::minutes(15);

std::string HostOfTask(const JobState& state, const std::string& task) {
  for (const protocol::TaskPlan& plan : state.plan.tasks) {
    if (plan.task == task) return HostOfSlot(state, state.SeatOf(plan));
  }
  return "?";
}

const std::string& Blamed(const JobState& state) {
  return state.gang ? state.gang->task : state.first_task;
}

bool StopsAll(Consequence consequence) {
  return consequence == Consequence::kGangRestart || consequence == Consequence::kJobFailed;
}

// "3.2 s", and "0 s" for what is due already.
std::string Until(int64_t due_ns, int64_t now_ns) {
  return fmt::format("{:.1f} s", static_cast<double>(std::max<int64_t>(due_ns - now_ns, 0)) * 1e-9);
}

// Of a lost host whose tasks another one is to run, in an exclusive job.
std::optional<std::string> UntilItsTasksEnded(const JobState& state, size_t slot, int64_t now_ns) {
  const bool all_start_again = state.phase == JobPhase::kRestarting;
  if (!state.plan.exclusive || !all_start_again || state.slots[slot].census) return std::nullopt;
  if (state.tally.seated[slot].empty()) return std::nullopt;
  const std::chrono::nanoseconds limit = protocol::LostTasksLimit(state.plan);
  const int64_t left_ns = state.slots[slot].since_ns + limit.count() - now_ns;
  return fmt::format(
      "; its tasks start elsewhere in {}, when its agent must have ended them, or here when it is "
      "back",
      Span(std::max<int64_t>(left_ns, 0)));
}

std::string UntilItIsGivenUp(const JobState& state, size_t slot, int64_t now_ns) {
  const std::chrono::nanoseconds limit = protocol::LostHostLimit(state.plan);
  const int64_t left_ns = state.slots[slot].since_ns + limit.count() - now_ns;
  return fmt::format("; the job goes on when it is back, and fails in {} if it is not",
                     Span(std::max<int64_t>(left_ns, 0)));
}

// At a restart of all tasks those that have succeeded start again too.
bool IsNeeded(const JobState& state, size_t slot) {
  const bool all = state.phase == JobPhase::kRestarting;
  return std::ranges::any_of(state.tally.seated[slot], [&](size_t task) {
    const protocol::TaskPlan& plan = state.plan.tasks[task];
    return !plan.may_fail && (all || !HasSucceeded(state.tasks.at(plan.task)));
  });
}

// A job that is being stopped waits for no host that is lost.
void AddHosts(const JobState& state, int64_t now_ns, std::vector<std::string>& lines) {
  const bool waits = state.plan.on_host_lost == protocol::OnHostLost::kWait;
  std::vector<int> needed;
  for (size_t slot = 0; slot < state.slots.size(); ++slot) {
    if (IsNeeded(state, slot)) needed.push_back(static_cast<int>(slot));
  }
  for (const int one : OnePerHost(state, needed)) {
    const auto slot = static_cast<size_t>(one);
    const protocol::SlotState& host = state.slots[slot];
    const std::string name = HostOfSlot(state, one);
    const std::string since = Span(now_ns - host.since_ns);
    if (host.state == HostState::kLost && state.phase != JobPhase::kStopping) {
      const std::string then = waits ? UntilItIsGivenUp(state, slot, now_ns) : "";
      lines.push_back(fmt::format("host {}, which has been lost for {}{}", name, since,
                                  UntilItsTasksEnded(state, slot, now_ns).value_or(then)));
    } else if (host.state == HostState::kSlow) {
      lines.push_back(fmt::format("host {}, which has been slow for {}", name, since));
    }
  }
}

void AddCensus(const JobState& state, std::vector<std::string>& lines) {
  std::vector<std::string> hosts;
  for (size_t slot = 0; slot < state.slots.size(); ++slot) {
    const bool answers = state.slots[slot].state != HostState::kLost;
    if (answers && !state.slots[slot].census) {
      hosts.push_back(HostOfSlot(state, static_cast<int>(slot)));
    }
  }
  if (hosts.empty()) return;
  lines.push_back(fmt::format("{} to say that nothing of attempt {} is left there",
                              FoldHosts(hosts), state.attempt));
}

void AddRunning(const JobState& state, std::vector<std::string>& lines) {
  for (const protocol::TaskPlan& plan : state.plan.tasks) {
    const auto task = state.tasks.find(plan.task);
    if (task == state.tasks.end() || task->second.phase != TaskPhase::kRunning) continue;
    lines.push_back(fmt::format("{} on {} to end", plan.task, HostOfTask(state, plan.task)));
  }
}

void AddStarts(const JobState& state, int64_t now_ns, std::vector<std::string>& lines) {
  std::vector<std::string> waiting;
  for (const protocol::TaskPlan& plan : state.plan.tasks) {
    const auto found = state.tasks.find(plan.task);
    if (found == state.tasks.end()) continue;
    const protocol::TaskState& task = found->second;
    if (task.due_ns) {
      lines.push_back(fmt::format("the pause before {} starts again: {} more", plan.task,
                                  Until(*task.due_ns, now_ns)));
    } else if (task.phase == TaskPhase::kWaiting) {
      waiting.push_back(plan.task);
    }
  }
  if (!waiting.empty()) lines.push_back(fmt::format("{} to start", FoldHosts(waiting)));
}

}  // namespace

void Story::Add(const protocol::Event& event) {
  if (const auto* exited = std::get_if<event::TaskExited>(&event.body)) {
    state_.Apply(event);
    return AddFailure(*exited);
  }
  // Before the state changes: a restart gives tasks other hosts.
  if (const auto* restarting = std::get_if<event::Restarting>(&event.body)) {
    const std::vector<Failure> open = restarting->asked ? std::exchange(open_, {}) : open_;
    AddIncident(event, restarting->gang ? Consequence::kGangRestart : Consequence::kTaskRestart,
                restarting->task, restarting->why);
    if (restarting->asked) open_ = open;  // nothing has failed because of it
  }
  const auto* stopping = std::get_if<event::Stopping>(&event.body);
  if (stopping != nullptr && stopping->result == protocol::JobResult::kFailed) {
    AddIncident(event, Consequence::kJobFailed, stopping->task, stopping->why);
  }
  const bool is_past = std::holds_alternative<event::Attempt>(event.body) ||
                       std::holds_alternative<event::Snapshot>(event.body);
  if (is_past) open_.clear();
  const std::string blamed = Blamed(state_);
  state_.Apply(event);
  const auto* host = std::get_if<event::Host>(&event.body);
  if (host != nullptr && Blamed(state_) != blamed) BlameTheHost();
}

// A lost host was the cause of the failure for which all are being stopped.
void Story::BlameTheHost() {
  if (!incidents_.empty()) incidents_.back().why = state_.gang ? state_.gang->why : state_.why;
}

Failure Story::EndOf(const event::TaskExited& exited) const {
  return {.task = exited.task,
          .host = HostOfTask(state_, exited.task),
          .attempt = exited.attempt,
          .run = exited.run,
          .time_ns = state_.tasks.at(exited.task).since_ns,
          .exit = exited.exit,
          .last_lines = exited.last_lines.value};
}

void Story::AddFailure(const event::TaskExited& exited) {
  if (exited.exit.by_us) return;
  if (!HasFailed(exited.exit)) {
    ended_.push_back(EndOf(exited));
    if (ended_.size() > kMostFailures) ended_.erase(ended_.begin());
    return;
  }
  Failure failure = EndOf(exited);
  // All are being stopped already, because of another one.
  Incident* last = incidents_.empty() ? nullptr : &incidents_.back();
  if (last != nullptr && StopsAll(last->consequence) && last->attempt == exited.attempt) {
    // It was heard of later, and failed first all the same: so the coordinator has it by now.
    if (last->first && Blamed(state_) == failure.task) {
      last->why = failure.task + " on " + failure.host + ": " + Describe(failure.exit);
      std::swap(*last->first, failure);
    }
    if (!last->first && failure.time_ns < last->time_ns) {
      last->first = std::move(failure);
      return;
    }
    if (last->collateral.size() < kMostFailures) last->collateral.push_back(std::move(failure));
  } else if (open_.size() < kMostFailures) {
    open_.push_back(std::move(failure));
  }
}

void Story::AddIncident(const protocol::Event& event, Consequence consequence,
                        const std::string& task, std::string why) {
  Incident incident{.consequence = consequence,
                    .time_ns = event.time_ns,
                    .attempt = state_.attempt,
                    .why = std::move(why),
                    .first = {},
                    .collateral = {},
                    .ended_before = {}};
  const auto cause = std::find_if(open_.rbegin(), open_.rend(),
                                  [&](const Failure& failure) { return failure.task == task; });
  if (cause != open_.rend()) {
    incident.first = std::move(*cause);
    open_.erase(std::next(cause).base());
  }
  if (StopsAll(consequence)) incident.collateral = std::exchange(open_, {});
  // Of a lost host, say: whatever had failed by then stands first.
  if (!incident.first && !incident.collateral.empty()) {
    const auto earliest = std::ranges::min_element(incident.collateral, {}, &Failure::time_ns);
    incident.first = std::move(*earliest);
    incident.collateral.erase(earliest);
  }
  incidents_.push_back(std::move(incident));
  if (incidents_.size() > kMostIncidentsKept) {
    incidents_.erase(incidents_.begin());
    ++forgotten_;
  }
}

std::vector<Incident> Story::Incidents() const {
  std::vector<Incident> all = incidents_;
  for (const Failure& failure : open_) {
    Incident incident;
    incident.time_ns = failure.time_ns;
    incident.attempt = failure.attempt;
    incident.why = fmt::format("{} on {}: {}", failure.task, failure.host, Describe(failure.exit));
    incident.first = failure;
    all.push_back(std::move(incident));
  }
  for (Incident& incident : all) {
    if (incident.first) incident.ended_before = EndedBefore(*incident.first);
  }
  return all;
}

std::vector<Failure> Story::EndedBefore(const Failure& failure) const {
  std::vector<Failure> before;
  std::ranges::copy_if(ended_, std::back_inserter(before), [&](const Failure& ended) {
    const int64_t earlier_ns = failure.time_ns - ended.time_ns;
    return ended.attempt == failure.attempt && earlier_ns >= 0 &&
           earlier_ns <= kMayBeMissed.count();
  });
  std::ranges::stable_sort(before, {}, &Failure::time_ns);
  return before;
}

std::string EndedWell(const std::vector<Failure>& ended) {
  if (ended.size() == 1) {
    return fmt::format("{} on {} ended with exit code 0", ended[0].task, ended[0].host);
  }
  std::vector<std::string> names;
  for (const Failure& one : ended) names.push_back(one.task);
  return fmt::format("{} ended with exit code 0, the last one", FoldHosts(names));
}

std::string MayWaitForThoseThatEnded(const JobState& state, int64_t now_ns) {
  if (state.phase != JobPhase::kRunning) return "";
  std::vector<Failure> ended;
  bool others_run = false;
  for (const protocol::TaskPlan& plan : state.plan.tasks) {
    const auto task = state.tasks.find(plan.task);
    if (task == state.tasks.end()) continue;
    others_run = others_run || task->second.phase == TaskPhase::kRunning;
    if (!HasSucceeded(task->second)) continue;
    Failure& one = ended.emplace_back();
    one.task = plan.task;
    one.host = HostOfTask(state, plan.task);
    one.time_ns = task->second.since_ns;
  }
  if (ended.empty() || !others_run) return "";
  std::ranges::stable_sort(ended, {}, &Failure::time_ns);
  return fmt::format("{}{} {} ago: a task that needs {} waits for ever, or fails", EndedWell(ended),
                     ended.size() == 1 ? "," : "", Span(now_ns - ended.back().time_ns),
                     ended.size() == 1 ? "it" : "one of them");
}

std::vector<std::string> WaitsFor(const JobState& state, bool live, int64_t now_ns) {
  std::vector<std::string> lines;
  if (state.phase == JobPhase::kEnded) return lines;
  if (!live) {
    lines.push_back("nothing: no agent of the job runs on its first host any more");
    return lines;
  }
  AddHosts(state, now_ns, lines);
  if (state.phase == JobPhase::kStopping) AddRunning(state, lines);
  if (state.phase == JobPhase::kStopping && lines.empty()) AddCensus(state, lines);
  if (state.phase == JobPhase::kRestarting) {
    if (state.gang && state.gang->due_ns > now_ns) {
      lines.push_back(fmt::format("the pause before all tasks start again: {} more",
                                  Until(state.gang->due_ns, now_ns)));
    }
    AddCensus(state, lines);
  }
  if (state.phase == JobPhase::kRunning || state.phase == JobPhase::kCommitted) {
    AddStarts(state, now_ns, lines);
  }
  return lines;
}

}  // namespace tfdist::cli
