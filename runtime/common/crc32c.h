// CRC-32C (Castagnoli), the checksum of iSCSI, ext4 and leveldb. Source: RFC 3720 appendix B.4.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tfdist::runtime {

// Of all bytes; `before` is the checksum of those before them.
uint32_t Crc32c(std::string_view bytes, uint32_t before = 0);

// Eight lower-case hexadecimal digits.
std::string Crc32cText(uint32_t crc);

}  // namespace tfdist::runtime
