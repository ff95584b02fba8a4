#include "agent/job_plan.h"

#include "agent/json_fields.h"
#include "agent/named_enum.h"

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

}  // namespace

std::string_view NameOf(RestartPolicy policy) { return NameIn(kPolicies, policy); }

void to_json(Json& json, const RestartPolicy& value) { json = NameOf(value); }
void from_json(const Json& json, RestartPolicy& value) { value = ValueIn(kPolicies, json); }
void to_json(Json& json, const OnHostLost& value) { json = NameIn(kOnHostLost, value); }
void from_json(const Json& json, OnHostLost& value) { value = ValueIn(kOnHostLost, json); }

TFDIST_JSON_FIELDS(SlotPlan, host, address, spare)
TFDIST_JSON_FIELDS(RestartRule, policy, limit, window_ms, backoff_ms)
TFDIST_JSON_FIELDS(TaskPlan, task, slot, chief, decides, may_fail, serves, restart)
TFDIST_JSON_FIELDS(JobPlan, job, name, layout, plan_sha256, slots, tasks, on_host_lost,
                   host_lost_ms, deadline_ms, finish_timeout_ms)

}  // namespace tfdist::protocol
