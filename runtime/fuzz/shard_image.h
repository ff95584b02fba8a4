// A shard as an input of shard_fuzz: the JSON of its header, a newline, and its data. The target
// puts the length in front of the header, and the right checksums of the data where the header has
// the word CHECKSUMS; else hardly an input would be read further than to the first one.
#pragma once

#include <string>
#include <string_view>

#include "runtime/checkpoint/shard_file.h"
#include "runtime/common/crc32c.h"

namespace tfdist::runtime::fuzz {

inline constexpr std::string_view kChecksums = "CHECKSUMS";

inline std::string ChecksumsOf(std::string_view data) {
  std::string text;
  for (; !data.empty(); data.remove_prefix(std::min(kCrcBlockBytes, data.size()))) {
    text += Crc32cText(Crc32c(data.substr(0, kCrcBlockBytes)));
  }
  return text;
}

struct ShardImage {
  std::string file;
  ShardFacts facts;
};

inline ShardImage ParseShard(std::string_view input) {
  const size_t end = std::min(input.find('\n'), input.size());
  std::string header(input.substr(0, end));
  const std::string_view data = input.substr(std::min(end + 1, input.size()));
  const size_t checksums = header.find(kChecksums);
  if (checksums != std::string::npos) {
    header.replace(checksums, kChecksums.size(), ChecksumsOf(data));
  }
  const uint64_t length = header.size();
  ShardImage image;
  image.file.assign(reinterpret_cast<const char*>(&length), sizeof length);
  image.file += header;
  image.facts.header_crc = Crc32c(image.file);
  image.file += data;
  image.facts.bytes = image.file.size();
  return image;
}

}  // namespace tfdist::runtime::fuzz
