#include "base/text.h"

#include <cstdint>
#include <utility>

namespace tfdist {

void ReplaceAll(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

std::string_view TakeUpTo(char separator, std::string_view& text) {
  const size_t end = text.find(separator);
  const std::string_view taken = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return taken;
}

std::string LowerCase(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

std::string ShellQuoted(std::string_view text) {
  // Nothing is special between single quotes but the quote itself.
  std::string quoted(text);
  ReplaceAll(quoted, "'", "'\\''");
  return "'" + quoted + "'";
}

std::string DurationText(std::chrono::milliseconds duration) {
  constexpr std::pair<int64_t, const char*> kUnits[] = {
      {3'600'000, "h"}, {60'000, "m"}, {1'000, "s"}};
  for (const auto& [unit, name] : kUnits) {
    if (duration.count() >= unit && duration.count() % unit == 0) {
      return std::to_string(duration.count() / unit) + name;
    }
  }
  return std::to_string(duration.count()) + "ms";
}

}  // namespace tfdist
