#include "cli/cluster_file/quantity.h"

#include <charconv>
#include <span>
#include <string>

namespace tfdist::cli {
namespace {

struct Unit {
  std::string_view name;
  int64_t factor;
};

constexpr Unit kDurations[] = {
    {"ms", 1}, {"s", 1000}, {"m", 60'000}, {"h", 3'600'000}, {"d", 86'400'000}};

constexpr Unit kSizes[] = {
    {"B", 1},
    {"KiB", int64_t{1} << 10},
    {"MiB", int64_t{1} << 20},
    {"GiB", int64_t{1} << 30},
    {"TiB", int64_t{1} << 40},
    {"KB", 1'000},
    {"kB", 1'000},
    {"MB", 1'000'000},
    {"GB", 1'000'000'000},
    {"TB", 1'000'000'000'000},
};

std::optional<int64_t> Parse(std::string_view text, std::span<const Unit> units) {
  int64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || number < 0) return std::nullopt;
  const std::string_view name(rest, static_cast<size_t>(end - rest));
  for (const Unit& unit : units) {
    int64_t product = 0;
    if (unit.name != name) continue;
    if (__builtin_mul_overflow(number, unit.factor, &product)) return std::nullopt;
    return product;
  }
  return std::nullopt;
}

std::string NamesOf(std::span<const Unit> units) {
  std::string text;
  for (const Unit& unit : units) {
    if (!text.empty()) text += &unit == &units.back() ? " or " : ", ";
    text += unit.name;
  }
  return text;
}

}  // namespace

std::string DurationUnits() { return NamesOf(kDurations); }

std::string SizeUnits() { return NamesOf(kSizes); }

std::optional<int64_t> ParseDurationMs(std::string_view text) { return Parse(text, kDurations); }

std::optional<int64_t> ParseOptionMs(std::string_view text) {
  const bool is_bare = text.find_first_not_of("0123456789") == text.npos;
  return ParseDurationMs(is_bare ? std::string(text) + "s" : std::string(text));
}

std::optional<int64_t> ParseSizeBytes(std::string_view text) { return Parse(text, kSizes); }

}  // namespace tfdist::cli
