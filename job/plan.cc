#include "job/plan.h"

#include <algorithm>

#include "base/json_fields.h"
#include "base/named_enum.h"

namespace tfdist::protocol {
namespace {

constexpr EnumNames<RestartPolicy, 4> kPolicies = {{
    {RestartPolicy::kTask, "task"},
    {RestartPolicy::kGang, "gang"},
    {RestartPolicy::kNever, "never"},
    {RestartPolicy::kExitCode, "exit-code"},
}};

constexpr EnumNames<OnHostLost, 2> kOnHostLost = {{
    {OnHostLost::kFail, "fail"},
    {OnHostLost::kWait, "wait"},
}};

// For an agent to find that it is time, and for what SIGKILL has to end.
constexpr std::chrono::seconds kEndOfOrphans{10};

constexpr std::chrono::seconds kSlowAfter{4};

}  // namespace

std::string_view NameOf(RestartPolicy policy) { return NameIn(kPolicies, policy); }

std::chrono::milliseconds SlowAfter(std::chrono::milliseconds lost_after) {
  return std::min<std::chrono::milliseconds>(kSlowAfter, lost_after / 2);
}

std::chrono::milliseconds LostTasksLimit(const JobPlan& plan) {
  return std::chrono::milliseconds(plan.orphan_timeout_ms + plan.longest_grace_ms) + kEndOfOrphans;
}

std::chrono::milliseconds LostHostLimit(const JobPlan& plan) {
  return std::chrono::milliseconds(plan.orphan_timeout_ms) + std::chrono::seconds(30);
}

void to_json(Json& json, const RestartPolicy& value) { json = NameOf(value); }
void from_json(const Json& json, RestartPolicy& value) { value = ValueIn(kPolicies, json); }
void to_json(Json& json, const OnHostLost& value) { json = NameIn(kOnHostLost, value); }
void from_json(const Json& json, OnHostLost& value) { value = ValueIn(kOnHostLost, json); }

TFDIST_JSON_FIELDS(SlotPlan, host, address, spare)

void to_json(Json& json, const RestartRule& value) {
  json = {{"policy", value.policy},
          {"limit", value.limit},
          {"window_ms", value.window_ms},
          {"backoff_ms", value.backoff_ms},
          {"worked_after_ms", value.worked_after_ms}};
}
void from_json(const Json& json, RestartRule& value) {
  json.at("policy").get_to(value.policy);
  json.at("limit").get_to(value.limit);
  json.at("window_ms").get_to(value.window_ms);
  json.at("backoff_ms").get_to(value.backoff_ms);
  // Missing in a job that an older tfdist has started.
  value.worked_after_ms = json.value("worked_after_ms", int64_t{0});
}

TFDIST_JSON_FIELDS(TaskPlan, task, slot, chief, decides, may_fail, serves, restart)

void to_json(Json& json, const JobPlan& value) {
  json = {{"job", value.job},
          {"name", value.name},
          {"layout", value.layout},
          {"plan_sha256", value.plan_sha256},
          {"slots", value.slots},
          {"tasks", value.tasks},
          {"on_host_lost", value.on_host_lost},
          {"host_lost_ms", value.host_lost_ms},
          {"exclusive", value.exclusive},
          {"orphan_timeout_ms", value.orphan_timeout_ms},
          {"longest_grace_ms", value.longest_grace_ms},
          {"deadline_ms", value.deadline_ms},
          {"deadline_succeeds", value.deadline_succeeds},
          {"warning_ms", value.warning_ms},
          {"warning_signal", value.warning_signal},
          {"finish_timeout_ms", value.finish_timeout_ms},
          {"rest_timeout_ms", value.rest_timeout_ms}};
}
void from_json(const Json& json, JobPlan& value) {
  json.at("job").get_to(value.job);
  json.at("name").get_to(value.name);
  json.at("layout").get_to(value.layout);
  json.at("plan_sha256").get_to(value.plan_sha256);
  json.at("slots").get_to(value.slots);
  json.at("tasks").get_to(value.tasks);
  json.at("on_host_lost").get_to(value.on_host_lost);
  json.at("host_lost_ms").get_to(value.host_lost_ms);
  json.at("deadline_ms").get_to(value.deadline_ms);
  json.at("finish_timeout_ms").get_to(value.finish_timeout_ms);
  // Of a job that an older tfdist has started.
  value.warning_ms = json.value("warning_ms", int64_t{0});
  value.warning_signal = json.value("warning_signal", 0);
  value.rest_timeout_ms = json.value("rest_timeout_ms", int64_t{0});
  const JobPlan fresh;
  value.deadline_succeeds = json.value("deadline_succeeds", fresh.deadline_succeeds);
  value.exclusive = json.value("exclusive", fresh.exclusive);
  value.orphan_timeout_ms =
      json.value("orphan_timeout_ms", std::max(fresh.orphan_timeout_ms, 2 * value.host_lost_ms));
  value.longest_grace_ms = json.value("longest_grace_ms", fresh.longest_grace_ms);
}

}  // namespace tfdist::protocol
