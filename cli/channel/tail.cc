#include "cli/channel/tail.h"

namespace tfdist::cli {
namespace {

bool IsBreak(char c) { return c == '\n' || c == '\r'; }

// Bytes from 0x80 on may be C1 controls to a terminal.
bool IsHarmless(char c) { return c >= ' ' && c <= '~'; }

}  // namespace

void AppendToTail(std::string& tail, std::string_view text) {
  if (text.size() > kKeptTextBytes) text.remove_prefix(text.size() - kKeptTextBytes);
  tail.append(text);
  if (tail.size() > kKeptTextBytes) tail.erase(0, tail.size() - kKeptTextBytes);
}

std::string OnOneLine(std::string_view text, size_t limit_bytes) {
  if (text.size() > limit_bytes) text.remove_prefix(text.size() - limit_bytes);
  std::string line;
  bool broken = false;
  for (const char c : text) {
    if (IsBreak(c)) {
      broken = true;
      continue;
    }
    if (broken && !line.empty()) line += " / ";
    broken = false;
    line += IsHarmless(c) ? c : '?';
  }
  return line;
}

}  // namespace tfdist::cli
