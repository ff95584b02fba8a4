// Numbers and short texts, little-endian, in a row: what message headers are made of.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

namespace tfdist::runtime {

static_assert(std::endian::native == std::endian::little,
              "the wire is little-endian, copied as is");

class ByteWriter {
 public:
  ByteWriter() { bytes_.reserve(128); }  // most headers, in one allocation

  template <typename Number>
  void Put(Number value) {
    static_assert(std::is_arithmetic_v<Number>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  // A length in 16 bits, then the text; cut to what 16 bits can say.
  void PutText(std::string_view text);

  [[nodiscard]] const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// Reads what a peer sent: throws Error(kRun) instead of reading past the end. Borrows the bytes.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : rest_(bytes) {}

  template <typename Number>
  Number Get() {
    static_assert(std::is_arithmetic_v<Number>);
    Number value;
    std::memcpy(&value, Take(sizeof value).data(), sizeof value);
    return value;
  }
  std::string GetText(size_t limit_bytes);
  // Throws when something is left: a header that says more than was read is of another format.
  void ExpectEnd() const;

 private:
  std::string_view Take(size_t count);
  std::string_view rest_;
};

}  // namespace tfdist::runtime
