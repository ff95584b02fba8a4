// The bytes of a journal. Each byte is either understood or counted as damaged; understood lines
// come back when they are written again.
//
// Each input is taken as it is, and with right checksums on all lines: a damaged line ends the
// journal, and what stands behind a checksum would hardly ever be reached.
#include <fmt/format.h>
#include <zlib.h>

#include <cassert>
#include <cstdint>
#include <string>
#include <string_view>

#include "agent/coordinator/disk/journal.h"

namespace tfdist::agent {
namespace {

constexpr std::string_view kCrcBegin = ",\"crc\":\"";

// The line without the checksum that it may have, and with the right one.
std::string Sealed(std::string_view line) {
  const size_t body_end = line.rfind(line.rfind(kCrcBegin) == line.npos ? "}" : kCrcBegin);
  const std::string body(line.substr(0, body_end));
  const std::string whole = body + "}";
  const auto crc =
      crc32_z(0, reinterpret_cast<const Bytef*>(whole.data()), static_cast<z_size_t>(whole.size()));
  return fmt::format("{}{}{:08x}\"}}", body, kCrcBegin, crc);
}

std::string WithRightChecksums(std::string_view journal) {
  std::string sealed;
  while (!journal.empty()) {
    const size_t end = std::min(journal.find('\n'), journal.size());
    sealed += Sealed(journal.substr(0, end)) + "\n";
    journal.remove_prefix(std::min(end + 1, journal.size()));
  }
  return sealed;
}

std::string Written(const std::vector<protocol::Event>& events) {
  std::string text;
  for (const protocol::Event& event : events) text += EncodeRecord(event) + "\n";
  return text;
}

void Run(std::string_view journal) {
  const JournalContent content = ParseJournal(journal);
  assert(content.size_bytes + content.damaged_bytes == journal.size());
  assert(content.size_bytes == 0 || journal[content.size_bytes - 1] == '\n');
  const std::string written = Written(content.events);
  const JournalContent again = ParseJournal(written);
  assert(again.damaged_bytes == 0);
  assert(again.events.size() == content.events.size());
  assert(Written(again.events) == written);
}

}  // namespace
}  // namespace tfdist::agent

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view journal(reinterpret_cast<const char*>(data), size);
  tfdist::agent::Run(journal);
  tfdist::agent::Run(tfdist::agent::WithRightChecksums(journal));
  return 0;
}
