// Lengths on the wire: 4 bytes, big-endian.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tfdist::protocol {

inline constexpr size_t kLengthBytes = 4;

inline void AppendLength(std::string& out, size_t length) {
  for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<char>(length >> shift));
}

// Of the first kLengthBytes of `bytes`.
inline size_t ReadLength(std::string_view bytes) {
  size_t length = 0;
  for (const char byte : bytes.substr(0, kLengthBytes)) {
    length = length << 8 | static_cast<unsigned char>(byte);
  }
  return length;
}

}  // namespace tfdist::protocol
