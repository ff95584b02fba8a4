#include "job/snapshot.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/failures.h"
#include "base/json_fields.h"
#include "job/bytes.h"

namespace tfdist::protocol {

TFDIST_JSON_FIELDS(GangRestart, task, why, due_ns)

void to_json(Json& json, const TaskState& task) {
  json = {{"phase", task.phase},
          {"attempt", task.attempt},
          {"run", task.run},
          {"pid", task.pid},
          {"since_ns", task.since_ns},
          {"started_ns", task.started_ns},
          {"longest_run_ns", task.longest_run_ns},
          {"lost_bytes", task.lost_bytes},
          {"ordered", task.ordered},
          {"restarts", task.restarts},
          {"restarts_ns", task.restarts_ns}};
  if (!task.last_lines.empty()) json["last_lines"] = Bytes{task.last_lines};
  Put(json, "exit", task.exit);
  Put(json, "previous", task.previous);
  Put(json, "due_ns", task.due_ns);
}

void from_json(const Json& json, TaskState& task) {
  json.at("phase").get_to(task.phase);
  json.at("attempt").get_to(task.attempt);
  json.at("run").get_to(task.run);
  json.at("pid").get_to(task.pid);
  json.at("since_ns").get_to(task.since_ns);
  json.at("started_ns").get_to(task.started_ns);
  json.at("longest_run_ns").get_to(task.longest_run_ns);
  json.at("lost_bytes").get_to(task.lost_bytes);
  json.at("ordered").get_to(task.ordered);
  json.at("restarts").get_to(task.restarts);
  json.at("restarts_ns").get_to(task.restarts_ns);
  if (json.contains("last_lines")) task.last_lines = json["last_lines"].get<Bytes>().value;
  Get(json, "exit", task.exit);
  Get(json, "previous", task.previous);
  Get(json, "due_ns", task.due_ns);
}

void to_json(Json& json, const SlotState& slot) {
  json = {{"state", slot.state},
          {"why", slot.why},
          {"since_ns", slot.since_ns},
          {"agent_restarts", slot.agent_restarts},
          {"decision", slot.decision}};
  Put(json, "census", slot.census);
  Put(json, "clock", slot.clock);
}

void from_json(const Json& json, SlotState& slot) {
  json.at("state").get_to(slot.state);
  json.at("why").get_to(slot.why);
  json.at("since_ns").get_to(slot.since_ns);
  json.at("agent_restarts").get_to(slot.agent_restarts);
  json.at("decision").get_to(slot.decision);
  Get(json, "census", slot.census);
  Get(json, "clock", slot.clock);
}

// Neither the plan nor what is counted from the rest.
void to_json(Json& json, const JobState& state) {
  json = {{"phase", state.phase},
          {"attempt", state.attempt},
          {"result", state.result},
          {"why", state.why},
          {"first_task", state.first_task},
          {"forced", state.forced},
          {"decision", state.decision},
          {"newest_order", state.newest_order},
          {"stop", state.stop},
          {"warned", state.warned},
          {"committed_ns", state.committed_ns},
          {"ended_ns", state.ended_ns},
          {"tasks", state.tasks},
          {"slots", state.slots},
          {"seats", state.seats},
          {"gangs_ns", state.gangs_ns},
          {"unconfirmed", state.unconfirmed},
          {"unreachable", state.unreachable}};
  Put(json, "gang", state.gang);
}

void from_json(const Json& json, JobState& state) {
  json.at("phase").get_to(state.phase);
  json.at("attempt").get_to(state.attempt);
  json.at("result").get_to(state.result);
  json.at("why").get_to(state.why);
  json.at("first_task").get_to(state.first_task);
  json.at("forced").get_to(state.forced);
  json.at("decision").get_to(state.decision);
  json.at("newest_order").get_to(state.newest_order);
  json.at("stop").get_to(state.stop);
  json.at("warned").get_to(state.warned);
  json.at("committed_ns").get_to(state.committed_ns);
  json.at("ended_ns").get_to(state.ended_ns);
  json.at("tasks").get_to(state.tasks);
  json.at("slots").get_to(state.slots);
  json.at("seats").get_to(state.seats);
  json.at("gangs_ns").get_to(state.gangs_ns);
  json.at("unconfirmed").get_to(state.unconfirmed);
  json.at("unreachable").get_to(state.unreachable);
  Get(json, "gang", state.gang);
}

namespace {

// A replay takes nobody's word for what an index may be.
bool GoesWithThePlan(const JobState& state, const JobPlan& plan) {
  const auto is_slot = [&](int slot) {
    return slot >= 0 && static_cast<size_t>(slot) < plan.slots.size();
  };
  const auto is_task = [&](const std::string& name) { return state.tasks.contains(name); };
  return state.slots.size() == plan.slots.size() && state.seats.size() == plan.slots.size() &&
         std::ranges::all_of(state.seats, is_slot) &&
         std::ranges::all_of(state.unconfirmed, is_slot) &&
         std::ranges::all_of(state.unreachable, is_slot) &&
         state.tasks.size() == plan.tasks.size() &&
         std::ranges::all_of(plan.tasks, is_task, &TaskPlan::task) &&
         (state.first_task.empty() || is_task(state.first_task)) &&
         (!state.gang || state.gang->task.empty() || is_task(state.gang->task));
}

// Of the last lines of all failed tasks; those of the task that failed first are the last to go.
constexpr size_t kMostLineBytes = 1 << 20;

void LimitLastLines(JobState& state) {
  size_t left = kMostLineBytes;
  const auto keep = [&](TaskState& task) {
    if (task.last_lines.size() > left) task.last_lines.clear();
    left -= task.last_lines.size();
  };
  if (const auto first = state.tasks.find(state.first_task); first != state.tasks.end()) {
    keep(first->second);
  }
  for (auto& [name, task] : state.tasks) {
    if (name != state.first_task) keep(task);
  }
}

}  // namespace

Event SnapshotOf(JobState state, const Event& last, uint64_t first) {
  LimitLastLines(state);
  return {last.number, last.time_ns, event::Snapshot{first, state}};
}

void Restore(const event::Snapshot& snapshot, JobState& state) {
  JobState restored;
  try {
    snapshot.state.get_to(restored);
  } catch (const Json::exception& e) {
    throw ProtocolError(Phase::kControl, fmt::format("malformed snapshot: {}", e.what()));
  }
  if (state.phase == JobPhase::kNone || !GoesWithThePlan(restored, state.plan)) {
    throw ProtocolError(Phase::kControl, "a snapshot does not go with the job's plan");
  }
  restored.plan = std::move(state.plan);
  restored.applied = state.applied;
  restored.tally = restored.CountAnew();
  state = std::move(restored);
}

}  // namespace tfdist::protocol
