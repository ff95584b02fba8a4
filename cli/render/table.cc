#include "cli/render/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

namespace tfdist::cli {
namespace {

constexpr size_t kGap = 2;            // between columns
constexpr size_t kNarrowestCell = 3;  // of a column that is cut
constexpr size_t kWholeCell = 10;  // a column that is no wider is never cut: states, times, numbers
constexpr size_t kMostPadding = 32;  // where nothing is cut: a longer cell stands out of its column
constexpr std::string_view kCut = "\u2026";

std::string Shortened(const std::string& cell, size_t columns) {
  if (DisplayWidth(cell) <= columns) return cell;
  const size_t end = (columns - 1) / 2;
  return fmt::format("{}{}{}", FirstColumns(cell, columns - 1 - end), kCut, LastColumns(cell, end));
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
  std::vector<size_t> padded = widths;
  if (columns != 0) {
    Fit(widths, columns);
    padded = widths;
  } else {
    for (size_t& width : std::span(padded).subspan(1)) width = std::min(width, kMostPadding);
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string cell = Shortened(row[i], widths[i]);
      const size_t width = DisplayWidth(cell);
      line += cell + std::string(std::max(padded[i], width) - width + kGap, ' ');
    }
    // So narrow a terminal does not even hold the narrowest columns.
    if (columns != 0) line = FirstColumns(line, std::max(columns, widths[0]));
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace tfdist::cli
