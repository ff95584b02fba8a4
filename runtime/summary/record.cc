#include "runtime/summary/record.h"

#include "runtime/common/crc32c.h"

namespace tfdist::runtime {
namespace {

template <typename Number>
void AppendNumber(Number number, std::string& to) {
  for (size_t i = 0; i < sizeof(Number); ++i) to += static_cast<char>(number >> (8 * i));
}

}  // namespace

uint32_t MaskedCrc32c(std::string_view bytes) {
  constexpr uint32_t kMaskDelta = 0xa282ead8;
  const uint32_t crc = Crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + kMaskDelta;
}

std::string Record(std::string_view data) {
  std::string record;
  AppendNumber(uint64_t{data.size()}, record);
  AppendNumber(MaskedCrc32c(record), record);
  record += data;
  AppendNumber(MaskedCrc32c(data), record);
  return record;
}

}  // namespace tfdist::runtime
