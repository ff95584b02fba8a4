#include "base/display_width.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

namespace tfdist {
namespace {

using Range = std::pair<uint32_t, uint32_t>;

// Unicode 15, EastAsianWidth.txt (W, F), in the blocks that are wide nearly as a whole.
constexpr auto kWide = std::to_array<Range>(
    {{0x1100, 0x115f},   {0x231a, 0x231b},  {0x23e9, 0x23ec}, {0x23f0, 0x23f0}, {0x23f3, 0x23f3},
     {0x25fd, 0x25fe},   {0x2614, 0x2615},  {0x2648, 0x2653}, {0x267f, 0x267f}, {0x2693, 0x2693},
     {0x26a1, 0x26a1},   {0x26aa, 0x26ab},  {0x26bd, 0x26be}, {0x26c4, 0x26c5}, {0x26ce, 0x26ce},
     {0x26d4, 0x26d4},   {0x26ea, 0x26ea},  {0x26f2, 0x26f3}, {0x26f5, 0x26f5}, {0x26fa, 0x26fa},
     {0x26fd, 0x26fd},   {0x2705, 0x2705},  {0x270a, 0x270b}, {0x2728, 0x2728}, {0x274c, 0x274c},
     {0x274e, 0x274e},   {0x2753, 0x2755},  {0x2757, 0x2757}, {0x2795, 0x2797}, {0x27b0, 0x27b0},
     {0x27bf, 0x27bf},   {0x2b1b, 0x2b1c},  {0x2b50, 0x2b50}, {0x2b55, 0x2b55}, {0x2e80, 0xa4cf},
     {0xac00, 0xd7a3},   {0xf900, 0xfaff},  {0xfe30, 0xfe6f}, {0xff00, 0xff60}, {0xffe0, 0xffe6},
     {0x1f300, 0x1faff}, {0x20000, 0x3fffd}});
constexpr std::array<Range, 4> kCombining = {
    {{0x0300, 0x036f}, {0x200b, 0x200f}, {0x20d0, 0x20ff}, {0xfe00, 0xfe0f}}};

template <size_t N>
bool IsIn(const std::array<Range, N>& ranges, uint32_t character) {
  return std::ranges::any_of(ranges, [&](const Range& range) {
    return range.first <= character && character <= range.second;
  });
}

bool Continues(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

// Takes the first character off, with what belongs to it.
std::string_view TakeCharacter(std::string_view& text) {
  size_t bytes = 1;
  while (bytes < text.size() && Continues(text[bytes])) ++bytes;
  const std::string_view character = text.substr(0, bytes);
  text.remove_prefix(bytes);
  return character;
}

uint32_t CodeOf(std::string_view character) {
  const auto first = static_cast<unsigned char>(character.front());
  if (first < 0x80) return first;
  uint32_t code = first & (0x7fU >> std::min<size_t>(character.size(), 4));
  for (const char byte : character.substr(1)) {
    code = code << 6 | (static_cast<unsigned char>(byte) & 0x3f);
  }
  return code;
}

size_t WidthOf(std::string_view character) {
  const uint32_t code = CodeOf(character);
  if (IsIn(kCombining, code)) return 0;
  return IsIn(kWide, code) ? 2 : 1;
}

}  // namespace

size_t DisplayWidth(std::string_view text) {
  size_t width = 0;
  while (!text.empty()) width += WidthOf(TakeCharacter(text));
  return width;
}

std::string_view FirstColumns(std::string_view text, size_t columns) {
  std::string_view rest = text;
  while (!rest.empty()) {
    std::string_view after = rest;
    const size_t width = WidthOf(TakeCharacter(after));
    if (width > columns) break;
    columns -= width;
    rest = after;
  }
  return text.substr(0, text.size() - rest.size());
}

std::string_view LastColumns(std::string_view text, size_t columns) {
  for (size_t width = DisplayWidth(text); width > columns;) width -= WidthOf(TakeCharacter(text));
  return text;
}

}  // namespace tfdist
