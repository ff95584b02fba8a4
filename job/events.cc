#include "job/events.h"

#include <array>
#include <utility>

#include "base/json_fields.h"
#include "base/named_enum.h"

namespace tfdist::protocol {
namespace {

constexpr EnumNames<JobResult, 4> kResults = {{
    {JobResult::kNone, ""},
    {JobResult::kSucceeded, "succeeded"},
    {JobResult::kFailed, "failed"},
    {JobResult::kStopped, "stopped"},
}};

constexpr EnumNames<HostState, 6> kHostStates = {{
    {HostState::kUnknown, ""},
    {HostState::kConnected, "connected"},
    {HostState::kSlow, "slow"},
    {HostState::kLost, "lost"},
    {HostState::kAgentRestarted, "agent-restarted"},
    {HostState::kKeeperLost, "keeper-lost"},
}};

}  // namespace

namespace event {

TFDIST_JSON_FIELDS(Committed, plan)
TFDIST_JSON_FIELDS(Attempt, attempt, why, seats)
TFDIST_JSON_FIELDS(Host, slot, state, why)
TFDIST_JSON_FIELDS(TaskStarted, task, attempt, run, pid)
TFDIST_JSON_FIELDS(TaskExited, task, attempt, run, exit, last_lines)
TFDIST_JSON_FIELDS(Restarting, gang, task, why, delay_ms, left, asked)
TFDIST_JSON_FIELDS(Run, task, run)
TFDIST_JSON_FIELDS(Warned, signal, left_ms)
TFDIST_JSON_FIELDS(Clock, slot, offset_ns, error_ns)
TFDIST_JSON_FIELDS(Stopping, result, why, task, force)
TFDIST_JSON_FIELDS(Ended, result, unconfirmed, unreachable)
TFDIST_JSON_FIELDS(Snapshot, first, state)

void to_json(Json& json, const CensusTaken& value) {
  json = value.census;
  json["slot"] = value.slot;
}
void from_json(const Json& json, CensusTaken& value) {
  json.at("slot").get_to(value.slot);
  json.get_to(value.census);
}

}  // namespace event

namespace {

// One kind of event. `state` tells apart the two that are a "task" on the wire.
struct Kind {
  std::string_view name;
  std::string_view state;
  event::Body (*read)(const Json& fields);
};

template <typename T>
constexpr Kind MakeKind(std::string_view name, std::string_view state = "") {
  return {name, state, [](const Json& fields) -> event::Body { return fields.get<T>(); }};
}

// In the order of event::Body's types, from its second on.
constexpr std::array<Kind, std::variant_size_v<event::Body> - 1> kKinds = {
    MakeKind<event::Committed>(event::kCommitted),
    MakeKind<event::Attempt>(event::kAttempt),
    MakeKind<event::Host>(event::kHost),
    MakeKind<event::TaskStarted>(event::kTask, "started"),
    MakeKind<event::TaskExited>(event::kTask, "exited"),
    MakeKind<event::Restarting>(event::kRestarting),
    MakeKind<event::Run>(event::kRun),
    MakeKind<event::Warned>(event::kWarned),
    MakeKind<event::Clock>(event::kClock),
    MakeKind<event::Stopping>(event::kStopping),
    MakeKind<event::CensusTaken>(event::kCensus),
    MakeKind<event::Ended>(event::kEnded),
    MakeKind<event::Snapshot>(event::kSnapshot),
};

struct Fields {
  Json operator()(const event::Other& other) const { return other.fields; }
  template <typename T>
  Json operator()(const T& body) const {
    return body;
  }
};

event::Body ReadBody(const std::string& kind, const Json& fields) {
  for (const Kind& known : kKinds) {
    if (known.name != kind) continue;
    if (known.state.empty() || fields.at("state") == known.state) return known.read(fields);
  }
  return event::Other{kind, fields};
}

}  // namespace

std::string_view NameOf(JobResult result) { return NameIn(kResults, result); }
std::string_view NameOf(HostState state) { return NameIn(kHostStates, state); }

std::string_view KindOf(const event::Body& body) {
  if (const auto* other = std::get_if<event::Other>(&body)) return other->kind;
  return kKinds.at(body.index() - 1).name;
}

bool IsDecision(const event::Body& body) {
  if (const auto* restarting = std::get_if<event::Restarting>(&body)) return restarting->gang;
  return std::holds_alternative<event::Committed>(body) ||
         std::holds_alternative<event::Attempt>(body) || std::holds_alternative<event::Run>(body) ||
         std::holds_alternative<event::Warned>(body) ||
         std::holds_alternative<event::Stopping>(body) ||
         std::holds_alternative<event::Ended>(body);
}

uint64_t FirstOf(const Event& event) {
  const auto* snapshot = std::get_if<event::Snapshot>(&event.body);
  return snapshot == nullptr ? event.number : snapshot->first;
}

Json FieldsOf(const Event& event) {
  Json fields = std::visit(Fields(), event.body);
  if (event.body.index() == 0) return fields;
  const Kind& kind = kKinds.at(event.body.index() - 1);
  if (!kind.state.empty()) fields["state"] = kind.state;
  return fields;
}

void to_json(Json& json, const Event& event) {
  json = {{"number", event.number},
          {"time_ns", event.time_ns},
          {"kind", KindOf(event.body)},
          {"fields", FieldsOf(event)}};
}

void from_json(const Json& json, Event& event) {
  json.at("number").get_to(event.number);
  json.at("time_ns").get_to(event.time_ns);
  event.body = ReadBody(json.at("kind").get<std::string>(), json.at("fields"));
}

void to_json(Json& json, const JobResult& value) { json = NameOf(value); }
void from_json(const Json& json, JobResult& value) { value = ValueIn(kResults, json); }
void to_json(Json& json, const HostState& value) { json = NameOf(value); }
void from_json(const Json& json, HostState& value) { value = ValueIn(kHostStates, json); }

void to_json(Json& json, const TaskExit& value) {
  json = {{"code", value.code},
          {"signal", value.signal},
          {"by_us", value.by_us},
          {"error", value.error},
          {"permanent", value.permanent},
          {"lost_bytes", value.lost_bytes},
          {"out_of_memory", value.out_of_memory},
          {"cpu_time_over", value.cpu_time_over},
          {"peak_bytes", value.peak_bytes},
          {"ended_ns", value.ended_ns}};
}
void from_json(const Json& json, TaskExit& value) {
  json.at("code").get_to(value.code);
  json.at("signal").get_to(value.signal);
  json.at("by_us").get_to(value.by_us);
  json.at("error").get_to(value.error);
  json.at("permanent").get_to(value.permanent);
  json.at("lost_bytes").get_to(value.lost_bytes);
  // Of a job that an older tfdist has started.
  value.out_of_memory = json.value("out_of_memory", false);
  value.cpu_time_over = json.value("cpu_time_over", false);
  value.peak_bytes = json.value("peak_bytes", uint64_t{0});
  value.ended_ns = json.value("ended_ns", int64_t{0});
}

void to_json(Json& json, const Census& value) {
  json = {{"killed", value.killed}, {"left", value.left}, {"unknown", value.unknown}};
  if (!value.clients.empty()) json["clients"] = value.clients;
}
void from_json(const Json& json, Census& value) {
  json.at("killed").get_to(value.killed);
  json.at("left").get_to(value.left);
  value.unknown = json.value("unknown", std::vector<std::string>());
  value.clients = json.value("clients", std::vector<std::string>());
}

}  // namespace tfdist::protocol
