#include "base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <ctime>
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

// fmt/chrono.h would say it in a word, and brings the locales into the agent.
std::string UtcText(int64_t time_ns) {
  const auto seconds = static_cast<std::time_t>(time_ns / 1'000'000'000);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", utc.tm_year + 1900,
                     utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec,
                     time_ns / 1'000'000 % 1000);
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

std::string_view TakeWord(std::string_view& line) {
  constexpr std::string_view kBlanks = " \t\r";
  line.remove_prefix(std::min(line.find_first_not_of(kBlanks), line.size()));
  const size_t end = std::min(line.find_first_of(kBlanks), line.size());
  const std::string_view word = line.substr(0, end);
  line.remove_prefix(end);
  return word;
}

std::string_view NewestFrame(std::string_view line) {
  while (line.ends_with('\r')) line.remove_suffix(1);
  const size_t redrawn = line.rfind('\r');
  return redrawn == line.npos ? line : line.substr(redrawn + 1);
}

}  // namespace tfdist
