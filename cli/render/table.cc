#include "cli/render/table.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>

namespace tfdist::cli {
namespace {

constexpr size_t kGap = 2;            // between columns
constexpr size_t kNarrowestCell = 3;  // of a column that is cut
constexpr size_t kWholeCell = 10;  // a column that is no wider is never cut: states, times, numbers
constexpr std::string_view kCut = "\u2026";

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

std::string Beginning(std::string_view text, size_t columns) {
  std::string begin;
  while (!text.empty()) {
    const std::string_view character = TakeCharacter(text);
    if (WidthOf(character) > columns) break;
    columns -= WidthOf(character);
    begin += character;
  }
  return begin;
}

std::string_view End(std::string_view text, size_t columns) {
  for (size_t width = DisplayWidth(text); width > columns;) width -= WidthOf(TakeCharacter(text));
  return text;
}

std::string Shortened(const std::string& cell, size_t columns) {
  if (DisplayWidth(cell) <= columns) return cell;
  const size_t end = (columns - 1) / 2;
  return Beginning(cell, columns - 1 - end) + std::string(kCut) + std::string(End(cell, end));
}

std::vector<size_t> Widths(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths(rows.front().size(), 0);
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], DisplayWidth(row[i]));
  }
  return widths;
}

// One column after the other off the widest of those that may be cut. The first one stays whole, as a user copies it.
void Fit(std::vector<size_t>& widths, size_t columns) {
  const size_t gaps = kGap * (widths.size() - 1);
  std::vector<size_t*> cut;
  for (size_t& width : std::span(widths).subspan(1)) {
    if (width > kWholeCell) cut.push_back(&width);
  }
  while (!cut.empty() && std::accumulate(widths.begin(), widths.end(), gaps) > columns) {
    size_t* widest = *std::ranges::max_element(cut, {}, [](const size_t* width) { return *width; });
    if (*widest <= kNarrowestCell) return;
    --*widest;
  }
}

}  // namespace

size_t DisplayWidth(std::string_view text) {
  size_t width = 0;
  while (!text.empty()) width += WidthOf(TakeCharacter(text));
  return width;
}

std::vector<std::string> Wrapped(std::string_view text, size_t columns) {
  std::vector<std::string> lines(1);
  size_t width = 0;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    if (!lines.back().empty() && width + 1 + DisplayWidth(word) > columns) {
      lines.emplace_back();
      width = 0;
    }
    if (!lines.back().empty()) lines.back() += ' ';
    width += DisplayWidth(word) + (lines.back().empty() ? 0 : 1);
    lines.back() += word;
  }
  return lines;
}

std::string AlignColumns(const std::vector<std::vector<std::string>>& rows, size_t columns) {
  if (rows.empty()) return {};
  std::vector<size_t> widths = Widths(rows);
  if (columns != 0) Fit(widths, columns);
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string cell = Shortened(row[i], widths[i]);
      line += cell + std::string(widths[i] - DisplayWidth(cell) + kGap, ' ');
    }
    // So narrow a terminal does not even hold the narrowest columns.
    if (columns != 0) line = Beginning(line, std::max(columns, widths[0]));
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace tfdist::cli
