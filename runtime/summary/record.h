// TFRecord, the framing of TensorFlow's event files. A record is: the length of the data as uint64, the
// masked CRC-32C of those 8 bytes as uint32, the data, the masked CRC-32C of the data; all
// little-endian. Source: tensorflow/core/lib/io/record_writer.h, lib/hash/crc32c.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tfdist::runtime {

// A checksum of data that itself holds checksums; so it is rotated and moved.
uint32_t MaskedCrc32c(std::string_view bytes);

// `data` as a record.
std::string Record(std::string_view data);

}  // namespace tfdist::runtime
