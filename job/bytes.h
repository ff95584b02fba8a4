// JSON values, and byte strings in them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace tfdist::protocol {

using Json = nlohmann::json;

// Bytes that need not be UTF-8: CBOR byte strings on the wire.
struct Bytes {
  std::string value;
  bool operator==(const Bytes&) const = default;
};
void to_json(Json& json, const Bytes& bytes);
void from_json(const Json& json, Bytes& bytes);

Json ToBinary(const std::string& text);
// Text that comes as a CBOR byte string or, where the sender knew that it is UTF-8, as a string.
std::string RawText(const Json& json);

}  // namespace tfdist::protocol
