// What a manifest says of one file of a checkpoint, and what a server says of it once it is written.
#pragma once

#include <cstdint>

namespace tfdist::runtime {

struct ShardFacts {
  uint64_t bytes = 0;
  uint32_t header_crc = 0;  // CRC-32C of the length of its header and the header

  bool operator==(const ShardFacts&) const = default;
};

}  // namespace tfdist::runtime
