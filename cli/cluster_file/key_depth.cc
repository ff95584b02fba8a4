#include "cli/cluster_file/key_depth.h"

#include <algorithm>
#include <string>

namespace tfdist::cli {
namespace {

// One past the end of a string that holds newlines and opened before `at`.
size_t EndOfMultiline(std::string_view text, size_t at, char quote) {
  const std::string closing(3, quote);
  for (; at < text.size(); ++at) {
    if (quote == '"' && text[at] == '\\') {
      ++at;  // whatever is escaped does not end the string
    } else if (text.substr(at, 3) == closing) {
      // Up to two quotes may stand right before the closing ones.
      const size_t after = text.find_first_not_of(quote, at + 3);
      return std::min({after, at + 5, text.size()});
    }
  }
  return text.size();
}

// One past the end of a string of one line. One that is not closed is a syntax error, which toml++
// names.
size_t EndOfLineString(std::string_view text, size_t at, char quote) {
  for (; at < text.size(); ++at) {
    if (quote == '"' && text[at] == '\\') {
      ++at;
    } else if (text[at] == quote || text[at] == '\n') {
      return at + 1;
    }
  }
  return text.size();
}

size_t EndOfString(std::string_view text, size_t begin) {
  const char quote = text[begin];
  if (text.substr(begin, 3) == std::string(3, quote)) {
    return EndOfMultiline(text, begin + 3, quote);
  }
  return EndOfLineString(text, begin + 1, quote);
}

size_t EndOfLine(std::string_view text, size_t begin) {
  return std::min(text.find('\n', begin), text.size());
}

bool EndsKey(char c) { return std::string_view("=,[]{}\n").find(c) != std::string_view::npos; }

}  // namespace

std::optional<int> LineOfTooDeepKey(std::string_view text) {
  int dots = 0;
  size_t at = 0;
  while (at < text.size()) {
    const char c = text[at];
    if (c == '"' || c == '\'') {
      at = EndOfString(text, at);
      continue;
    }
    if (c == '#') {
      at = EndOfLine(text, at);
      continue;
    }
    if (EndsKey(c)) dots = 0;
    if (c == '.' && ++dots >= kMostKeyParts) {
      return 1 + static_cast<int>(std::count(text.begin(), text.begin() + at, '\n'));
    }
    ++at;
  }
  return std::nullopt;
}

}  // namespace tfdist::cli
