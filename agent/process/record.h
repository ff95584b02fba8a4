// Small records in files: numbers and texts, one after the other, behind a checksum's protection.
// The reader takes them in the order in which they were put.
//
//   "TFDR" | version u32 | { number u64 | length u64, bytes }... | crc32 u32 of all before;
//   little-endian
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tfdist::agent {

class RecordWriter {
 public:
  RecordWriter();
  RecordWriter& Put(uint64_t number);
  RecordWriter& Put(std::string_view text);
  RecordWriter& Put(const std::vector<std::string>& texts);
  // The whole record, checksum included. Call once, at the end.
  [[nodiscard]] std::string Finish();

 private:
  std::string bytes_;
};

class RecordReader {
 public:
  // nullopt when `record` is torn, damaged or of another version.
  static std::optional<RecordReader> Open(std::string record);

  // Past the end, or of a length that cannot be: zero or empty, and `good` is false from then on.
  uint64_t Number();
  std::string Text();
  std::vector<std::string> Texts();
  [[nodiscard]] bool good() const { return good_; }

 private:
  explicit RecordReader(std::string record);
  std::string_view Take(uint64_t size);

  std::string record_;
  size_t next_;
  size_t end_;
  bool good_ = true;
};

}  // namespace tfdist::agent
