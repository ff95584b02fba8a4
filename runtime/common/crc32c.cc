#include "runtime/common/crc32c.h"

#include <fmt/format.h>

#include <array>
#include <cstring>

namespace tfdist::runtime {
namespace {

constexpr uint32_t kPolynomial = 0x82f63b78;  // bits reversed

constexpr std::array<uint32_t, 256> MakeTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < table.size(); ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    table[i] = crc;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kTable = MakeTable();

uint32_t ByTable(uint32_t crc, std::string_view bytes) {
  for (const char byte : bytes) {
    crc = (crc >> 8) ^ kTable[(crc ^ static_cast<unsigned char>(byte)) & 0xff];
  }
  return crc;
}

#ifdef __x86_64__
__attribute__((target("sse4.2"))) uint32_t ByInstruction(uint32_t crc, std::string_view bytes) {
  uint64_t wide = crc;
  while (bytes.size() >= sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data(), sizeof word);
    wide = __builtin_ia32_crc32di(wide, word);
    bytes.remove_prefix(sizeof word);
  }
  return ByTable(static_cast<uint32_t>(wide), bytes);
}
#endif

}  // namespace

uint32_t Crc32c(std::string_view bytes, uint32_t before) {
#ifdef __x86_64__
  static const bool has_instruction = __builtin_cpu_supports("sse4.2") != 0;
  if (has_instruction) return ~ByInstruction(~before, bytes);
#endif
  return ~ByTable(~before, bytes);
}

std::string Crc32cText(uint32_t crc) { return fmt::format("{:08x}", crc); }

}  // namespace tfdist::runtime
