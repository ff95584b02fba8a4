// Text of hosts and tasks on its way to a terminal: what comes out is UTF-8 on one line, without
// any control character but tabs; of a task's colours, SGR sequences and a reset at the end.
#include <cassert>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>

#include "cli/stream/print.h"
#include "cli/stream/terminal_filter.h"

namespace tfdist::cli {
namespace {

// Judged by other code than the filter's: dump() throws on what is not UTF-8.
void CheckUtf8(const std::string& text) { (void)nlohmann::json(text).dump(); }

// All control characters of two bytes and more that have an effect on a line, as UTF-8.
bool HasWideControl(const std::string& text) {
  static const std::regex kControls(
      "\xc2[\x80-\x9f]|\xd8\x9c|\xe2\x80[\x8e\x8f\xa8-\xae]|\xe2\x81[\xa6-\xa9]");
  return std::regex_search(text, kControls);
}

bool HasControl(std::string_view text) {
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < ' ' && c != '\t') || byte == 0x7f) return true;
  }
  return false;
}

void CheckPlain(const std::string& text) {
  CheckUtf8(text);
  assert(!HasControl(text));
  assert(!HasWideControl(text));
}

void CheckColoured(const std::string& line) {
  static const std::regex kSgr("\x1b\\[[0-9;]*m");
  const bool coloured = line.find('\x1b') != std::string::npos;
  assert(!coloured || line.ends_with("\x1b[0m"));
  CheckPlain(std::regex_replace(line, kSgr, ""));
}

void Run(std::string_view text) {
  const std::string harmless = Harmless(text);
  CheckPlain(harmless);
  assert(Harmless(harmless) == harmless);
  assert(FormatHarmless("{}", text) == harmless);
  CheckPlain(WithoutControls(text));
  CheckPlain(SafeForTerminal(text, Colours::kDrop));
  CheckColoured(SafeForTerminal(text, Colours::kKeep));
}

}  // namespace
}  // namespace tfdist::cli

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tfdist::cli::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
