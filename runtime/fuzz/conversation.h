// The inputs of service_fuzz: one byte that says which server (ServerKind), then what peers send to
// it, turn after turn.
//
//   u8 peer and what happens besides (see below), u16 bytes of the header, u16 bytes of the
//   payload, header, payload
//
// A header whose store is 0 means the server's, which is random. Sizes beyond the end are cut.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace tfdist::runtime::fuzz {

enum class ServerKind : uint8_t { kEmpty, kTables, kLazyTables, kSync, kStaleness };
inline constexpr uint8_t kServerKinds = 5;

struct Turn {
  uint8_t peer = 0;  // position in the list of peers, by its low bits
  std::string_view header;
  std::string_view payload;
};
inline constexpr uint8_t kPeerMask = 3;
inline constexpr uint8_t kGoneAfterwards = 4;  // the peer's connection
inline constexpr uint8_t kTimePasses = 8;      // beforehand
// With one sequence number after the other. Once in a conversation, which is slow enough.
inline constexpr uint8_t kAgainAndAgain = 16;
inline constexpr int kTimesAgain = 140;

inline void Append(std::string& input, const Turn& turn) {
  input += static_cast<char>(turn.peer);
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
  turn.peer = static_cast<uint8_t>(input.front());
  std::memcpy(sizes, input.data() + 1, sizeof sizes);
  input.remove_prefix(1 + sizeof sizes);
  turn.header = input.substr(0, sizes[0]);
  input.remove_prefix(turn.header.size());
  turn.payload = input.substr(0, sizes[1]);
  input.remove_prefix(turn.payload.size());
  return true;
}

}  // namespace tfdist::runtime::fuzz
