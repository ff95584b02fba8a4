#include "cli/show/moment.h"

#include <fmt/format.h>

#include <charconv>
#include <ctime>
#include <optional>

#include "base/failures.h"
#include "cli/cluster_file/quantity.h"

namespace tfdist::cli {
namespace {

constexpr int64_t kMomentMillisecond = 1'000'000;
constexpr int64_t kMomentSecond = 1000 * kMomentMillisecond;
constexpr int64_t kDay = 24 * 3600 * kMomentSecond;
constexpr int64_t kMostDays = 36'500;

std::optional<int64_t> ParseCount(std::string_view digits) {
  int64_t number = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, number);
  const bool good = error == std::errc() && stop == end && digits.front() != '-';
  return good ? std::optional(number) : std::nullopt;
}

// "10m", "7d"
std::optional<int64_t> ParseAge(std::string_view text) {
  if (text.size() > 1 && text.ends_with('d')) {
    const auto days = ParseCount(text.substr(0, text.size() - 1));
    return days && *days <= kMostDays ? std::optional(*days * kDay) : std::nullopt;
  }
  const auto milliseconds = ParseDurationMs(text);
  if (!milliseconds || *milliseconds > kMostDays * (kDay / kMomentMillisecond)) return std::nullopt;
  return *milliseconds * kMomentMillisecond;
}

// ".125": of a second.
std::optional<int64_t> ParseFraction(std::string_view text) {
  if (text.empty()) return 0;
  if (text.front() != '.' || text.size() < 2 || text.size() > 10) return std::nullopt;
  std::string digits(text.substr(1));
  digits.resize(9, '0');
  return ParseCount(digits);
}

// "05:00": the last time that it was so.
std::optional<int64_t> ParseTimeOfDay(const std::string& text, int64_t now_ns) {
  std::tm parts{};
  const char* rest = strptime(text.c_str(), "%H:%M", &parts);
  if (rest != nullptr && *rest == ':') rest = strptime(rest, ":%S", &parts);
  if (rest == nullptr || (*rest != '\0' && std::string_view(rest) != "Z")) return std::nullopt;
  const int64_t of_day = ((parts.tm_hour * 60 + parts.tm_min) * 60 + parts.tm_sec) * kMomentSecond;
  const int64_t today = now_ns - now_ns % kDay + of_day;
  return today > now_ns ? today - kDay : today;
}

// RFC 3339, in UTC; a blank may stand for the T.
std::optional<int64_t> ParseTime(const std::string& text) {
  std::tm parts{};
  const char* rest = strptime(text.c_str(), "%Y-%m-%d", &parts);
  if (rest == nullptr || (*rest != 'T' && *rest != ' ')) return std::nullopt;
  rest = strptime(rest + 1, "%H:%M", &parts);
  if (rest == nullptr) return std::nullopt;
  if (*rest == ':') rest = strptime(rest, ":%S", &parts);
  if (rest == nullptr) return std::nullopt;
  std::string_view fraction(rest);
  if (fraction.ends_with('Z')) fraction.remove_suffix(1);
  const auto nanoseconds = ParseFraction(fraction);
  if (!nanoseconds) return std::nullopt;
  return timegm(&parts) * kMomentSecond + *nanoseconds;
}

}  // namespace

int64_t ParseMoment(std::string_view option, const std::string& text, int64_t now_ns) {
  if (const auto age = ParseAge(text)) return now_ns - *age;
  if (const auto time = ParseTime(text)) return *time;
  if (const auto time = ParseTimeOfDay(text, now_ns)) return *time;
  throw UsageError(Phase::kUsage,
                   fmt::format("{}: expected an age like 10m (units: {}), or a time (UTC) like "
                               "2026-08-01T12:00:00Z or 12:00, got {}",
                               option, DurationUnits(), text));
}

}  // namespace tfdist::cli
