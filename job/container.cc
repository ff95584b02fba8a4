#include "job/container.h"

#include "base/json_fields.h"
#include "base/named_enum.h"

namespace tfdist::protocol {
namespace {

constexpr EnumNames<EngineKind, 4> kEngines = {{
    {EngineKind::kAuto, "auto"},
    {EngineKind::kDocker, "docker"},
    {EngineKind::kPodman, "podman"},
    {EngineKind::kApptainer, "apptainer"},
}};

}  // namespace

void to_json(Json& json, const EngineKind& value) { json = NameIn(kEngines, value); }
void from_json(const Json& json, EngineKind& value) { value = ValueIn(kEngines, json); }

void to_json(Json& json, const Mount& value) {
  json = Json::array({Bytes{value.source}, Bytes{value.target}, value.read_only});
}
void from_json(const Json& json, Mount& value) {
  value.source = json.at(0).get<Bytes>().value;
  value.target = json.at(1).get<Bytes>().value;
  json.at(2).get_to(value.read_only);
}

void to_json(Json& json, const ContainerDescription& value) {
  json = {{"image", value.image},
          {"engine", value.engine},
          {"mounts", value.mounts},
          {"shm_size", value.shm_size_bytes}};
  if (value.entrypoint) json["entrypoint"] = Bytes{*value.entrypoint};
}
void from_json(const Json& json, ContainerDescription& value) {
  json.at("image").get_to(value.image);
  json.at("engine").get_to(value.engine);
  json.at("mounts").get_to(value.mounts);
  json.at("shm_size").get_to(value.shm_size_bytes);
  if (json.contains("entrypoint")) value.entrypoint = json.at("entrypoint").get<Bytes>().value;
}

TFDIST_JSON_FIELDS(ImageOnHost, image, id, engine)

}  // namespace tfdist::protocol
