// JSON both ways for a plain struct, written once: TFDIST_JSON_FIELDS(T, field, ...) in the source
// file of the namespace that declares to_json and from_json for T. Keys are the members' names; a
// missing key throws nlohmann's exception, an unknown one is passed over. As nlohmann's own
// NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE, but not inline: headers then declare, and need no definition.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>

#define TFDIST_JSON_FIELDS(T, ...)                                             \
  void to_json(nlohmann::json& nlohmann_json_j, const T& nlohmann_json_t) {    \
    NLOHMANN_JSON_EXPAND(NLOHMANN_JSON_PASTE(NLOHMANN_JSON_TO, __VA_ARGS__))   \
  }                                                                            \
  void from_json(const nlohmann::json& nlohmann_json_j, T& nlohmann_json_t) {  \
    NLOHMANN_JSON_EXPAND(NLOHMANN_JSON_PASTE(NLOHMANN_JSON_FROM, __VA_ARGS__)) \
  }

namespace tfdist {

// A member that may be missing: its key is there when it has a value.
template <typename T>
void Put(nlohmann::json& json, const char* key, const std::optional<T>& value) {
  if (value) json[key] = *value;
}

template <typename T>
void Get(const nlohmann::json& json, const char* key, std::optional<T>& value) {
  if (json.contains(key)) value = json.at(key).get<T>();
}

}  // namespace tfdist
