#include "cli/cluster_file/host_range.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "cli/cluster_file/problems.h"

namespace tfdist::cli {
namespace {

constexpr size_t kMostDigits = 9;
constexpr size_t kLongestText = 1024;

struct Span {
  int first = 0;
  int last = 0;
  size_t width = 0;  // 0: no leading zeros
};

struct Bracket {
  size_t begin = 0;  // of '['
  size_t end = 0;    // one past ']'
  std::string_view inner;
};

bool IsRangeCharacter(char c) { return (c >= '0' && c <= '9') || c == '-' || c == ','; }

// The first bracket that is a range.
std::optional<Bracket> FindBracket(std::string_view text) {
  for (size_t begin = text.find('['); begin != text.npos; begin = text.find('[', begin + 1)) {
    const size_t close = text.find(']', begin);
    if (close == text.npos) return std::nullopt;
    const std::string_view inner = text.substr(begin + 1, close - begin - 1);
    if (!inner.empty() && std::all_of(inner.begin(), inner.end(), IsRangeCharacter)) {
      return Bracket{begin, close + 1, inner};
    }
  }
  return std::nullopt;
}

std::optional<int> ParseNumber(std::string_view digits) {
  if (digits.empty() || digits.size() > kMostDigits) return std::nullopt;
  int number = 0;
  const char* end = digits.data() + digits.size();
  const auto [rest, error] = std::from_chars(digits.data(), end, number);
  if (error != std::errc() || rest != end || number < 0) return std::nullopt;
  return number;
}

// "3", "1-4", "01-16"
std::optional<Span> ParseSpan(std::string_view text) {
  const size_t dash = text.find('-');
  const std::string_view from = text.substr(0, dash);
  const std::string_view to = dash == text.npos ? from : text.substr(dash + 1);
  const auto first = ParseNumber(from);
  const auto last = ParseNumber(to);
  if (!first || !last || *last < *first) return std::nullopt;
  return Span{*first, *last, from.size() > 1 && from.front() == '0' ? from.size() : 0};
}

std::optional<std::vector<Span>> ParseSpans(std::string_view inner) {
  std::vector<Span> spans;
  while (true) {
    const size_t comma = inner.find(',');
    const std::optional<Span> span = ParseSpan(inner.substr(0, comma));
    if (!span) return std::nullopt;
    spans.push_back(*span);
    if (comma == inner.npos) return spans;
    inner.remove_prefix(comma + 1);
  }
}

size_t Count(const std::vector<Span>& spans) {
  size_t count = 0;
  for (const Span& span : spans) count += static_cast<size_t>(span.last - span.first) + 1;
  return count;
}

BadRange TooMany() { return {fmt::format("more than {} hosts", kMostHosts)}; }

// Every name so far followed by every number of the range.
std::vector<std::string> Multiply(const std::vector<std::string>& names,
                                  const std::vector<Span>& spans) {
  std::vector<std::string> product;
  product.reserve(names.size() * Count(spans));
  for (const std::string& name : names) {
    for (const Span& span : spans) {
      for (int i = span.first; i <= span.last; ++i) {
        product.push_back(fmt::format("{}{:0>{}}", name, i, span.width));
      }
    }
  }
  return product;
}

void AppendToAll(std::vector<std::string>& names, std::string_view text) {
  for (std::string& name : names) name += text;
}

}  // namespace

std::variant<std::vector<std::string>, BadRange> ExpandRanges(std::string_view text) {
  if (text.size() > kLongestText) return BadRange{"too long for a host"};
  std::vector<std::string> names = {""};
  while (const std::optional<Bracket> bracket = FindBracket(text)) {
    const auto spans = ParseSpans(bracket->inner);
    if (!spans) {
      return BadRange{
          fmt::format("{} is no range: expected numbers such as [1-4], [01-16] or [1-3,7]",
                      Quoted(text.substr(bracket->begin, bracket->end - bracket->begin)))};
    }
    if (Count(*spans) > kMostHosts / names.size()) return TooMany();
    AppendToAll(names, text.substr(0, bracket->begin));
    names = Multiply(names, *spans);
    text.remove_prefix(bracket->end);
  }
  AppendToAll(names, text);
  return names;
}

}  // namespace tfdist::cli
