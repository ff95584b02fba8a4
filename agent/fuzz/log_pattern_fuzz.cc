// The pattern of `logs --grep`, and lines that are searched with it: a pattern is refused, or says the same of a line each
// time; what ".*" is put around finds no less.
//
// Input: the pattern, a newline, lines.
#include <cassert>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/text.h"
#include "wire/log_pattern.h"

namespace tfdist::protocol {
namespace {

std::optional<LogPattern> PatternOf(const std::string& text) {
  try {
    return LogPattern(text);
  } catch (const Error&) {
    return std::nullopt;
  }
}

void Run(std::string_view input) {
  const std::string text(TakeUpTo('\n', input));
  auto pattern = PatternOf(text);
  if (!pattern) return;
  // A parenthesis that closes nothing would close that.
  const bool may_close = text.find(')') != std::string::npos;
  auto around = may_close ? std::nullopt : PatternOf(".*(" + text + ").*");
  while (!input.empty()) {
    const std::string_view line = TakeUpTo('\n', input);
    const bool found = pattern->FoundIn(line);
    assert(pattern->FoundIn(line) == found);
    if (found && around) assert(around->FoundIn(line));
  }
}

}  // namespace
}  // namespace tfdist::protocol

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tfdist::protocol::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
