#include "wire/control.h"

#include "base/json_fields.h"

namespace tfdist::agent {

using protocol::Json;

void to_json(Json& json, const Goal& value) { json = static_cast<int>(value); }
void from_json(const Json& json, Goal& value) {
  const int goal = json.get<int>();
  // What a newer coordinator may mean is at least "do not run".
  value = goal == 0 ? Goal::kRun : goal == 2 ? Goal::kKill : Goal::kStop;
}

TFDIST_JSON_FIELDS(TaskOrder, task, run)
TFDIST_JSON_FIELDS(Order, number, attempt, goal, addresses, tasks, over, warned)
TFDIST_JSON_FIELDS(ClockEcho, beat_ns, heard_ns, sent_ns, wall_ns)
TFDIST_JSON_FIELDS(Beat, order, time_ns)

void to_json(Json& json, const TaskReport& value) {
  json = {{"task", value.task}, {"attempt", value.attempt}, {"run", value.run},
          {"pid", value.pid},   {"done", value.done},       {"last_lines", value.last_lines}};
  if (value.exit) json["exit"] = *value.exit;
}
void from_json(const Json& json, TaskReport& value) {
  json.at("task").get_to(value.task);
  json.at("attempt").get_to(value.attempt);
  json.at("run").get_to(value.run);
  json.at("pid").get_to(value.pid);
  json.at("done").get_to(value.done);
  json.at("last_lines").get_to(value.last_lines);
  if (json.contains("exit")) value.exit = json.at("exit").get<protocol::TaskExit>();
}

void to_json(Json& json, const HostReport& value) {
  json = {{"order", value.order},
          {"incarnation", value.incarnation},
          {"keeper_lost", value.keeper_lost},
          {"leaving", value.leaving},
          {"swept", value.swept},
          {"tasks", value.tasks}};
  if (value.census) json["census"] = *value.census;
  if (value.clock) json["clock"] = *value.clock;
}
void from_json(const Json& json, HostReport& value) {
  json.at("order").get_to(value.order);
  json.at("incarnation").get_to(value.incarnation);
  json.at("keeper_lost").get_to(value.keeper_lost);
  json.at("leaving").get_to(value.leaving);
  json.at("swept").get_to(value.swept);
  json.at("tasks").get_to(value.tasks);
  if (json.contains("census")) value.census = json.at("census").get<protocol::Census>();
  if (json.contains("clock")) value.clock = json.at("clock").get<ClockEcho>();
}

}  // namespace tfdist::agent
