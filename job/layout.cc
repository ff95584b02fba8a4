#include "job/layout.h"

#include <algorithm>
#include <charconv>

namespace tfdist::layout {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

bool IsHexadecimal(char c) { return IsDigit(c) || (c >= 'a' && c <= 'f'); }

bool IsPlain(char c) {
  return IsDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '_' ||
         c == '-';
}

}  // namespace

bool IsPlainName(std::string_view name, size_t max_size) {
  return !name.empty() && name.size() <= max_size && name.front() != '.' &&
         std::ranges::all_of(name, IsPlain);
}

std::optional<int> ParseSlotName(std::string_view name) {
  if (!name.starts_with(kSlotPrefix)) return std::nullopt;
  const std::string_view digits = name.substr(kSlotPrefix.size());
  int slot = 0;
  const auto [rest, error] = std::from_chars(digits.data(), digits.data() + digits.size(), slot);
  if (error != std::errc() || rest != digits.data() + digits.size() || slot < 0) {
    return std::nullopt;
  }
  return slot;
}

std::optional<SlotOfJob> ParseSlotPath(std::string_view path) {
  const size_t slash = std::min(path.find('/'), path.size());
  const std::string_view job = path.substr(0, slash);
  const auto slot = ParseSlotName(path.substr(std::min(slash + 1, path.size())));
  if (!slot || !IsPlainName(job, kMostJobBytes) || SlotPath(job, *slot) != path) {
    return std::nullopt;
  }
  return SlotOfJob{std::string(job), *slot};
}

bool IsJobIdOf(std::string_view id, std::string_view name) {
  // "-20260801T120000Z-a1b2c3" at least: the name may hold dashes itself.
  if (!id.starts_with(name) || id.size() < name.size() + 9) return false;
  const std::string_view rest = id.substr(name.size());
  const size_t hex = rest.size() - 6;
  return rest.front() == '-' && rest[hex - 1] == '-' &&
         std::ranges::all_of(rest.substr(hex), IsHexadecimal) &&
         std::ranges::count(rest, '-') == 2 && IsDigit(rest[1]);
}

}  // namespace tfdist::layout
