// JSON values, and byte strings in them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace tfdist::protocol {

using Json = nlohmann::json;

// Bytes that need not be UTF-8. In JSON they are a string whose characters, U+0000 to U+00FF, are the bytes: ASCII
// stays as it is. from_json throws ProtocolError at any other character.
struct Bytes {
  std::string value;
  bool operator==(const Bytes&) const = default;
};
void to_json(Json& json, const Bytes& bytes);
void from_json(const Json& json, Bytes& bytes);

// On one line. Text that is not UTF-8, which is for people only, gets U+FFFD in its place.
std::string JsonLine(const Json& json);

}  // namespace tfdist::protocol
