// Strings of the SSH protocols: a length of 4 bytes, big-endian, then the bytes. RFC 4251 5.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tfdist::ssh {

inline void AppendUint32(std::string& out, uint32_t value) {
  for (const int shift : {24, 16, 8, 0}) out += static_cast<char>(value >> shift);
}

inline void AppendString(std::string& out, std::string_view bytes) {
  AppendUint32(out, static_cast<uint32_t>(bytes.size()));
  out += bytes;
}

// Takes fields from the front of a peer's bytes; nullopt when the bytes are too short.
class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : rest_(bytes) {}

  std::optional<uint8_t> TakeByte() {
    if (rest_.empty()) return std::nullopt;
    const auto byte = static_cast<uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    return byte;
  }
  std::optional<uint32_t> TakeUint32() {
    if (rest_.size() < 4) return std::nullopt;
    uint32_t value = 0;
    for (const char c : rest_.substr(0, 4)) value = value << 8 | static_cast<uint8_t>(c);
    rest_.remove_prefix(4);
    return value;
  }
  // A view into what the reader was given.
  std::optional<std::string_view> TakeString() {
    const auto size = TakeUint32();
    if (!size || *size > rest_.size()) return std::nullopt;
    const std::string_view bytes = rest_.substr(0, *size);
    rest_.remove_prefix(*size);
    return bytes;
  }

 private:
  std::string_view rest_;
};

}  // namespace tfdist::ssh
