// What inputs of several messages are made of:
//
//   u8 what happens besides, u16 bytes of the header, u16 bytes of the payload, header, payload
//
// Sizes beyond the end are cut.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace tfdist::runtime::fuzz {

struct Turn {
  uint8_t what = 0;
  std::string_view header;
  std::string_view payload;
};

inline void Append(std::string& input, const Turn& turn) {
  input += static_cast<char>(turn.what);
  for (const std::string_view part : {turn.header, turn.payload}) {
    const auto size = static_cast<uint16_t>(part.size());
    input.append(reinterpret_cast<const char*>(&size), sizeof size);
  }
  input += turn.header;
  input += turn.payload;
}

// False at the end.
inline bool TakeTurn(std::string_view& input, Turn& turn) {
  uint16_t sizes[2];
  if (input.size() < 1 + sizeof sizes) return false;
  turn.what = static_cast<uint8_t>(input.front());
  std::memcpy(sizes, input.data() + 1, sizeof sizes);
  input.remove_prefix(1 + sizeof sizes);
  turn.header = input.substr(0, sizes[0]);
  input.remove_prefix(turn.header.size());
  turn.payload = input.substr(0, sizes[1]);
  input.remove_prefix(turn.payload.size());
  return true;
}

}  // namespace tfdist::runtime::fuzz
