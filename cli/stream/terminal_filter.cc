#include "cli/stream/terminal_filter.h"

#include <fmt/format.h>

namespace tfdist::cli {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD

std::string_view LastState(std::string_view line) {
  while (line.ends_with('\r')) line.remove_suffix(1);
  const size_t rewritten = line.rfind('\r');
  return rewritten == std::string_view::npos ? line : line.substr(rewritten + 1);
}

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

bool IsC1Control(std::string_view sequence) {
  return sequence.size() == 2 && sequence[0] == '\xc2' &&
         static_cast<unsigned char>(sequence[1]) < 0xa0;
}

}  // namespace

std::string SafeForTerminal(std::string_view line) {
  std::string safe;
  std::string_view rest = LastState(line);
  bool coloured = false;
  while (!rest.empty()) {
    const char first = rest[0];
    size_t length = 1;
    if (const size_t sgr = SgrLength(rest); sgr > 0) {
      length = sgr;
      safe += rest.substr(0, length);
      coloured = true;
    } else if (first == '\t' || (first >= ' ' && first <= '~')) {
      safe += first;
    } else if (first >= 0 && first < ' ') {
      safe += fmt::format("^{}", static_cast<char>(first + '@'));
    } else if (first == 0x7f) {
      safe += "^?";
    } else if (const size_t utf8 = Utf8Length(rest); utf8 > 0) {
      length = utf8;
      const std::string_view sequence = rest.substr(0, length);
      if (IsC1Control(sequence)) {
        safe += fmt::format("\\x{:02x}", static_cast<unsigned char>(sequence[1]));
      } else {
        safe += sequence;
      }
    } else {
      safe += kReplacement;
    }
    rest.remove_prefix(length);
  }
  if (coloured) safe += "\x1b[0m";  // a colour ends with its line
  return safe;
}

}  // namespace tfdist::cli
