#include "cli/stream/terminal_filter.h"

#include <fmt/format.h>

#include "base/text.h"

namespace tfdist::cli {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD

// Length of the SGR sequence (ESC [ digits and semicolons m) that `text` begins with; 0: none.
size_t SgrLength(std::string_view text) {
  if (!text.starts_with("\x1b[")) return 0;
  const size_t end = text.find_first_not_of("0123456789;", 2);
  return end != std::string_view::npos && text[end] == 'm' ? end + 1 : 0;
}

// Length of the well-formed UTF-8 sequence of two bytes or more that `text` begins with; 0: none.
size_t Utf8Length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  const size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  const bool overlong = (lead == 0xe0 && byte(1) < 0xa0) || (lead == 0xf0 && byte(1) < 0x90);
  const bool surrogate = lead == 0xed && byte(1) >= 0xa0;
  const bool too_large = lead == 0xf4 && byte(1) >= 0x90;
  return overlong || surrogate || too_large ? 0 : length;
}

// U+0080 to U+009F; U+061C, U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069; and the two line
// breaks U+2028, U+2029.
bool IsControl(uint32_t code_point) {
  const auto within = [=](uint32_t first, uint32_t last) {
    return code_point >= first && code_point <= last;
  };
  return within(0x80, 0x9f) || code_point == 0x61c || within(0x200e, 0x200f) ||
         within(0x2028, 0x202e) || within(0x2066, 0x2069);
}

// Of a well-formed sequence of two bytes or more.
uint32_t CodePoint(std::string_view sequence) {
  auto code_point = static_cast<unsigned char>(sequence[0]) & (0x7fU >> sequence.size());
  for (const char byte : sequence.substr(1)) {
    code_point = code_point << 6 | (static_cast<unsigned char>(byte) & 0x3fU);
  }
  return code_point;
}

// Appends the first character of `rest`, no SGR sequence; how many bytes it has.
size_t AppendVisible(std::string& safe, std::string_view rest) {
  const char first = rest[0];
  if (first == '\t' || (first >= ' ' && first <= '~')) {
    safe += first;
  } else if (first >= 0 && first < ' ') {
    safe += fmt::format("^{}", static_cast<char>(first + '@'));
  } else if (first == 0x7f) {
    safe += "^?";
  } else if (const size_t length = Utf8Length(rest); length > 0) {
    const std::string_view sequence = rest.substr(0, length);
    const uint32_t code_point = CodePoint(sequence);
    if (IsControl(code_point)) {
      safe += fmt::format("\\x{:02x}", code_point);
    } else {
      safe += sequence;
    }
    return length;
  } else {
    safe += kReplacement;
  }
  return 1;
}

}  // namespace

std::string SafeForTerminal(std::string_view line, Colours colours) {
  std::string safe;
  std::string_view rest = NewestFrame(line);
  bool coloured = false;
  while (!rest.empty()) {
    const size_t sgr = SgrLength(rest);
    if (sgr > 0 && colours == Colours::kKeep) {
      safe += rest.substr(0, sgr);
      coloured = true;
    }
    rest.remove_prefix(sgr > 0 ? sgr : AppendVisible(safe, rest));
  }
  if (coloured) safe += "\x1b[0m";  // a colour ends with its line
  return safe;
}

std::string WithoutControls(std::string_view text) {
  std::string safe;
  while (!text.empty()) text.remove_prefix(AppendVisible(safe, text));
  return safe;
}

}  // namespace tfdist::cli
