#include "agent/job_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/failures.h"

namespace tfdist::protocol {
namespace {

void ApplyCommitted(JobState& state, const Event& event) {
  event.fields.at("plan").get_to(state.plan);
  state.phase = JobPhase::kCommitted;
  state.committed_ns = event.time_ns;
  state.slots.assign(state.plan.slots.size(), {});
  state.tasks.clear();
  for (const TaskPlan& task : state.plan.tasks) state.tasks[task.task];
}

void ApplyAttempt(JobState& state, const Event& event) {
  event.fields.at("attempt").get_to(state.attempt);
  state.phase = JobPhase::kRunning;
  for (auto& [name, task] : state.tasks) task = {};
}

void ApplyHost(JobState& state, const Event& event) {
  SlotState& slot = state.slots.at(event.fields.at("slot").get<size_t>());
  event.fields.at("state").get_to(slot.state);
  slot.why = event.fields.value("why", "");
  if (slot.state == "agent-restarted") ++slot.agent_restarts;
}

void ApplyTask(JobState& state, const Event& event) {
  TaskState& task = state.tasks.at(event.fields.at("task").get<std::string>());
  event.fields.at("attempt").get_to(task.attempt);
  event.fields.at("run").get_to(task.run);
  task.since_ns = event.time_ns;
  if (event.fields.at("state") == "started") {
    task.phase = TaskPhase::kRunning;
    event.fields.at("pid").get_to(task.pid);
    return;
  }
  task.phase = TaskPhase::kExited;
  task.exit = event.fields.at("exit").get<TaskExit>();
  if (event.fields.contains("last_lines")) {
    task.last_lines = event.fields.at("last_lines").get<Bytes>().value;
  }
}

void ApplyStopping(JobState& state, const Event& event) {
  if (event.fields.value("force", false)) state.forced = true;
  // The first cause stands: a stop request during a failure does not change the result.
  if (!state.result.empty()) return;
  state.phase = JobPhase::kStopping;
  event.fields.at("result").get_to(state.result);
  event.fields.at("why").get_to(state.why);
  state.first_task = event.fields.value("task", "");
}

void ApplyCensus(JobState& state, const Event& event) {
  const int slot = event.fields.at("slot").get<int>();
  auto& census = state.slots.at(static_cast<size_t>(slot)).census;
  census = event.fields.get<Census>();
  // A lost host that came back after the end is not unreachable any more.
  if (std::erase(state.unreachable, slot) > 0 && !census->left.empty()) {
    state.unconfirmed.push_back(slot);
  }
}

void ApplyEnded(JobState& state, const Event& event) {
  state.phase = JobPhase::kEnded;
  state.ended_ns = event.time_ns;
  event.fields.at("result").get_to(state.result);
  event.fields.at("unconfirmed").get_to(state.unconfirmed);
  event.fields.at("unreachable").get_to(state.unreachable);
}

bool IsDecision(const Event& event) {
  return event.kind == event::kCommitted || event.kind == event::kAttempt ||
         event.kind == event::kStopping || event.kind == event::kEnded;
}

void ApplyKnown(JobState& state, const Event& event) {
  if (event.kind == event::kCommitted) return ApplyCommitted(state, event);
  if (event.kind == event::kAttempt) return ApplyAttempt(state, event);
  if (event.kind == event::kHost) return ApplyHost(state, event);
  if (event.kind == event::kTask) return ApplyTask(state, event);
  if (event.kind == event::kStopping) return ApplyStopping(state, event);
  if (event.kind == event::kCensus) return ApplyCensus(state, event);
  if (event.kind == event::kEnded) return ApplyEnded(state, event);
}

std::string Malformed(const Event& event, std::string_view why) {
  return fmt::format("malformed event {} ({}): {}", event.number, event.kind, why);
}

}  // namespace

void JobState::Apply(const Event& event) {
  try {
    ApplyKnown(*this, event);
    if (IsDecision(event)) decision = event.number;
  } catch (const Json::exception& e) {
    throw ProtocolError(Phase::kControl, Malformed(event, e.what()));
  } catch (const std::out_of_range&) {
    throw ProtocolError(Phase::kControl,
                        Malformed(event, "it names a task or slot outside the plan"));
  }
}

std::string_view JobPhaseName(JobPhase phase) {
  switch (phase) {
    case JobPhase::kNone:
      return "unknown";
    case JobPhase::kCommitted:
      return "starting";
    case JobPhase::kRunning:
      return "running";
    case JobPhase::kStopping:
      return "stopping";
    case JobPhase::kEnded:
      return "ended";
  }
  return "unknown";
}

std::string_view TaskPhaseName(TaskPhase phase) {
  switch (phase) {
    case TaskPhase::kWaiting:
      return "waiting";
    case TaskPhase::kRunning:
      return "running";
    case TaskPhase::kExited:
      return "exited";
  }
  return "unknown";
}

bool HasFailed(const TaskExit& exit) {
  return exit.code != 0 || exit.signal != 0 || !exit.error.empty();
}

std::string Describe(const TaskExit& exit) {
  if (!exit.error.empty()) return exit.error;
  if (exit.signal == 0) return fmt::format("exit code {}", exit.code);
  const char* name = sigabbrev_np(exit.signal);
  return fmt::format("signal {} (SIG{})", exit.signal, name != nullptr ? name : "?");
}

}  // namespace tfdist::protocol
