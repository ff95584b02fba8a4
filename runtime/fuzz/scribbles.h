// The inputs of shm_message_fuzz: what the other side does to a ring before each look of the
// reader.
//
//   u8 what, u64 produced, u16 place, u16 bytes, bytes
//
// Places and positions count from the reader's next message, so that an input means the same
// wherever in the ring that is. Sizes beyond the end are cut.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace tfdist::runtime::fuzz {

struct Scribble {
  uint8_t what = 0;
  uint64_t produced = 0;
  uint16_t place = 0;
  std::string_view bytes;
};
inline constexpr uint8_t kSetsProduced = 1;
inline constexpr uint8_t kAsksWhetherReady = 2;  // the reader, before it looks

inline constexpr size_t kScribbleBytes = 1 + sizeof(uint64_t) + 2 * sizeof(uint16_t);

inline void Append(std::string& input, const Scribble& scribble) {
  const auto size = static_cast<uint16_t>(scribble.bytes.size());
  input += static_cast<char>(scribble.what);
  input.append(reinterpret_cast<const char*>(&scribble.produced), sizeof scribble.produced);
  input.append(reinterpret_cast<const char*>(&scribble.place), sizeof scribble.place);
  input.append(reinterpret_cast<const char*>(&size), sizeof size);
  input += scribble.bytes;
}

// False at the end.
inline bool TakeScribble(std::string_view& input, Scribble& scribble) {
  if (input.size() < kScribbleBytes) return false;
  uint16_t size = 0;
  const char* const from = input.data();
  scribble.what = static_cast<uint8_t>(*from);
  std::memcpy(&scribble.produced, from + 1, sizeof scribble.produced);
  std::memcpy(&scribble.place, from + 9, sizeof scribble.place);
  std::memcpy(&size, from + 11, sizeof size);
  input.remove_prefix(kScribbleBytes);
  scribble.bytes = input.substr(0, size);
  input.remove_prefix(scribble.bytes.size());
  return true;
}

}  // namespace tfdist::runtime::fuzz
