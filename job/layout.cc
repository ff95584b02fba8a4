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
  constexpr std::string_view kForm = "-00000000T000000Z-xxxxxx";
  if (!IsPlainName(id, kMostJobBytes) || !id.starts_with(name)) return false;
  return std::ranges::equal(id.substr(name.size()), kForm, [](char c, char form) {
    return form == '0' ? IsDigit(c) : form == 'x' ? IsHexadecimal(c) : c == form;
  });
}

}  // namespace tfdist::layout
