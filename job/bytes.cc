#include "job/bytes.h"

#include <cstdint>
#include <vector>

namespace tfdist::protocol {
namespace {

std::string ToText(const Json::binary_t& bytes) { return {bytes.begin(), bytes.end()}; }

}  // namespace

std::string RawText(const Json& json) {
  return json.is_binary() ? ToText(json.get_binary()) : json.get<std::string>();
}

Json ToBinary(const std::string& text) {
  return Json::binary(std::vector<uint8_t>(text.begin(), text.end()));
}

void to_json(Json& json, const Bytes& bytes) { json = ToBinary(bytes.value); }
void from_json(const Json& json, Bytes& bytes) { bytes.value = RawText(json); }

}  // namespace tfdist::protocol
