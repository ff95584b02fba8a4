// The files of a log as one input of log_index_fuzz:
//
//   u8 flags, then for each file u8 bytes of text missing before it, u8 bytes of text, u16 bytes of
//   index, text, index
//
// Sizes beyond the end are cut. Flag 1: records get the right checksum.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "agent/log/log_files.h"

namespace tfdist::agent::fuzz {

inline constexpr uint8_t kRightChecksums = 1;
// Rotation keeps eight; more show nothing new.
inline constexpr size_t kMaxFiles = 3;

struct FileImage {
  uint64_t start = 0;
  std::string text;
  std::string index;
};

struct LogImage {
  uint8_t flags = 0;
  std::vector<FileImage> files;
};

inline std::string_view Take(std::string_view& input, size_t size) {
  const std::string_view taken = input.substr(0, size);
  input.remove_prefix(taken.size());
  return taken;
}

inline void PutRightChecksums(std::string& index) {
  for (size_t at = 0; at + sizeof(LogRecord) <= index.size(); at += sizeof(LogRecord)) {
    LogRecord record;
    std::memcpy(&record, index.data() + at, sizeof record);
    record.crc32 = Checksum(record);
    std::memcpy(index.data() + at, &record, sizeof record);
  }
}

inline LogImage ParseImage(std::string_view input) {
  LogImage image;
  if (input.empty()) return image;
  image.flags = static_cast<uint8_t>(Take(input, 1).front());
  uint64_t end = 0;
  while (input.size() >= 4 && image.files.size() < kMaxFiles) {
    uint8_t sizes[4];
    std::memcpy(sizes, Take(input, sizeof sizes).data(), sizeof sizes);
    FileImage file{.start = end + sizes[0], .text = {}, .index = {}};
    file.text = Take(input, sizes[1]);
    file.index = Take(input, sizes[2] + size_t{256} * sizes[3]);
    if ((image.flags & kRightChecksums) != 0) PutRightChecksums(file.index);
    // Two files that begin at one byte have one name.
    end = std::max(file.start + file.text.size(), file.start + 1);
    image.files.push_back(std::move(file));
  }
  return image;
}

inline void Append(std::string& input, uint8_t missing_before, std::string_view text,
                   std::string_view index) {
  for (const size_t byte :
       {size_t{missing_before}, text.size(), index.size() % 256, index.size() / 256}) {
    input += static_cast<char>(byte);
  }
  input += text;
  input += index;
}

}  // namespace tfdist::agent::fuzz
