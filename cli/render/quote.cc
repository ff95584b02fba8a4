#include "cli/render/quote.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace tfdist::cli {
namespace {

// What no shell makes anything of; `<jobdir>` is left plain too, for it is read, not run.
constexpr std::string_view kPlainSigns = "-./:=,+@%<>{}[]";

bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsControl(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

bool IsPlain(char c) {
  return IsLetter(c) || IsDigit(c) || kPlainSigns.find(c) != kPlainSigns.npos;
}

std::string Escaped(char c) {
  switch (c) {
    case '\n':
      return "\\n";
    case '\t':
      return "\\t";
    case '\'':
      return "\\'";
    case '\\':
      return "\\\\";
    default:
      return IsControl(c) ? fmt::format("\\x{:02x}", static_cast<unsigned char>(c))
                          : std::string(1, c);
  }
}

}  // namespace

std::string ShellWord(std::string_view text) {
  if (!text.empty() && std::all_of(text.begin(), text.end(), IsPlain)) return std::string(text);
  if (std::none_of(text.begin(), text.end(), IsControl)) return ShellQuoted(text);
  std::string word = "$'";
  for (const char c : text) word += Escaped(c);
  return word + "'";
}

bool IsShellName(std::string_view name) {
  return !name.empty() && !IsDigit(name.front()) &&
         std::all_of(name.begin(), name.end(), [](char c) { return IsLetter(c) || IsDigit(c); });
}

}  // namespace tfdist::cli
