#include "wire/host_check.h"

#include "base/json_fields.h"
#include "base/named_enum.h"

namespace tfdist::protocol {
namespace {

constexpr EnumNames<ReachFailure, 6> kReachFailures = {{
    {ReachFailure::kUnresolved, "unresolved"},
    {ReachFailure::kSilent, "silent"},
    {ReachFailure::kRefused, "refused"},
    {ReachFailure::kNoRoute, "no-route"},
    {ReachFailure::kStranger, "stranger"},
    {ReachFailure::kOtherHost, "other-host"},
}};

template <typename T>
void Put(Json& json, const char* key, const std::optional<T>& value) {
  if (value) json[key] = *value;
}

template <typename T>
void Get(const Json& json, const char* key, std::optional<T>& value) {
  if (json.contains(key)) value = json.at(key).get<T>();
}

}  // namespace

std::string_view ReachFailureName(ReachFailure failure) { return NameIn(kReachFailures, failure); }

TFDIST_JSON_FIELDS(Trouble, why, remedy)
TFDIST_JSON_FIELDS(PythonFact, program, version, packages, why)
TFDIST_JSON_FIELDS(DataFact, name, found)
TFDIST_JSON_FIELDS(ImageFact, image, engine, is_there, disk_free_bytes, gpu_trouble, gpu_remedy)
TFDIST_JSON_FIELDS(NetworkFact, interface, address, prefix, speed_mbit)
TFDIST_JSON_FIELDS(Target, slot, address, port)
TFDIST_JSON_FIELDS(Reach, targets, brought, limit_ms)
TFDIST_JSON_FIELDS(Held, ports)
TFDIST_JSON_FIELDS(Reached, failures)

void to_json(Json& json, const Survey& value) {
  json = {{"slot", value.slot},
          {"name", value.name},
          {"key", value.key},
          {"listen", value.listen},
          {"tasks", value.tasks},
          {"coordinator", value.coordinator},
          {"coordinator_port", value.coordinator_port},
          {"needs_ports", value.needs_ports},
          {"names", value.names},
          {"packages", value.packages},
          {"set_up_key", value.set_up_key},
          {"data", value.data},
          {"brought", value.brought},
          {"limit_ms", value.limit_ms}};
  Put(json, "kept", value.kept);
}
void from_json(const Json& json, Survey& value) {
  json.at("slot").get_to(value.slot);
  json.at("name").get_to(value.name);
  json.at("key").get_to(value.key);
  json.at("listen").get_to(value.listen);
  json.at("tasks").get_to(value.tasks);
  json.at("coordinator").get_to(value.coordinator);
  json.at("coordinator_port").get_to(value.coordinator_port);
  json.at("needs_ports").get_to(value.needs_ports);
  json.at("names").get_to(value.names);
  json.at("packages").get_to(value.packages);
  json.at("set_up_key").get_to(value.set_up_key);
  json.at("data").get_to(value.data);
  json.at("brought").get_to(value.brought);
  json.at("limit_ms").get_to(value.limit_ms);
  Get(json, "kept", value.kept);
}

void to_json(Json& json, const PortFact& value) {
  json = {
      {"port", value.port}, {"task", value.task}, {"held", value.held}, {"held_by", value.held_by}};
  Put(json, "trouble", value.trouble);
}
void from_json(const Json& json, PortFact& value) {
  json.at("port").get_to(value.port);
  json.at("task").get_to(value.task);
  json.at("held").get_to(value.held);
  json.at("held_by").get_to(value.held_by);
  Get(json, "trouble", value.trouble);
}

void to_json(Json& json, const HostFacts& value) {
  json = {{"machine", value.machine},
          {"disk_free", value.disk_free_bytes},
          {"files_free", value.files_free},
          {"kept_bytes", value.kept_bytes},
          {"ports", value.ports},
          {"names", value.names},
          {"set_up_made", value.set_up_made},
          {"data", value.data},
          {"images", value.images},
          {"commands", value.commands},
          {"limits", value.limits},
          {"files", value.files},
          {"settings", value.settings},
          {"gpus", value.gpus},
          {"gpu_trouble", value.gpu_trouble},
          {"networks", value.networks}};
  Put(json, "kept", value.kept);
  Put(json, "gpus_refused", value.gpus_refused);
  Put(json, "taken", value.taken);
  Put(json, "logout", value.logout);
  Put(json, "memory", value.memory);
  Put(json, "hidden", value.hidden);
  Put(json, "python", value.python);
}
void from_json(const Json& json, HostFacts& value) {
  json.at("machine").get_to(value.machine);
  json.at("disk_free").get_to(value.disk_free_bytes);
  json.at("files_free").get_to(value.files_free);
  json.at("kept_bytes").get_to(value.kept_bytes);
  json.at("ports").get_to(value.ports);
  json.at("names").get_to(value.names);
  json.at("set_up_made").get_to(value.set_up_made);
  json.at("data").get_to(value.data);
  json.at("images").get_to(value.images);
  json.at("commands").get_to(value.commands);
  json.at("limits").get_to(value.limits);
  json.at("files").get_to(value.files);
  json.at("settings").get_to(value.settings);
  json.at("gpus").get_to(value.gpus);
  json.at("gpu_trouble").get_to(value.gpu_trouble);
  json.at("networks").get_to(value.networks);
  Get(json, "kept", value.kept);
  Get(json, "gpus_refused", value.gpus_refused);
  Get(json, "taken", value.taken);
  Get(json, "logout", value.logout);
  Get(json, "memory", value.memory);
  Get(json, "hidden", value.hidden);
  Get(json, "python", value.python);
}

void to_json(Json& json, const Unreached& value) {
  json = {{"target", value.target},
          {"failure", ReachFailureName(value.failure)},
          {"address", value.address},
          {"answered_by", value.answered_by},
          {"why", value.why}};
}
void from_json(const Json& json, Unreached& value) {
  json.at("target").get_to(value.target);
  value.failure = ValueIn(kReachFailures, json.at("failure"));
  json.at("address").get_to(value.address);
  json.at("answered_by").get_to(value.answered_by);
  json.at("why").get_to(value.why);
}

}  // namespace tfdist::protocol
