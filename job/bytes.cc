#include "job/bytes.h"

#include <string_view>

#include "base/failures.h"

namespace tfdist::protocol {
namespace {

// A byte from 0x80 on is two bytes of UTF-8: 110000xx 10xxxxxx.
constexpr unsigned char kLead = 0xc0;
constexpr unsigned char kNext = 0x80;

bool IsAscii(unsigned char byte) { return byte < kNext; }

std::string AsCharacters(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (!IsAscii(byte)) text.push_back(static_cast<char>(kLead | byte >> 6));
    text.push_back(IsAscii(byte) ? c : static_cast<char>(kNext | (byte & 0x3f)));
  }
  return text;
}

// `text` is UTF-8: JSON's parser has seen to it.
std::string AsBytes(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  for (size_t at = 0; at < text.size(); ++at) {
    const auto lead = static_cast<unsigned char>(text[at]);
    if (IsAscii(lead)) {
      bytes.push_back(text[at]);
      continue;
    }
    if (lead > (kLead | 3) || ++at == text.size()) {
      throw ProtocolError(Phase::kControl, "a text for bytes has a character that is no byte");
    }
    bytes.push_back(static_cast<char>(lead << 6 | (static_cast<unsigned char>(text[at]) & 0x3f)));
  }
  return bytes;
}

}  // namespace

void to_json(Json& json, const Bytes& bytes) { json = AsCharacters(bytes.value); }
void from_json(const Json& json, Bytes& bytes) {
  bytes.value = AsBytes(json.get_ref<const std::string&>());
}

std::string JsonLine(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace tfdist::protocol
