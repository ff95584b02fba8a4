#include "cli/show/host_fold.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <tuple>

namespace tfdist::cli {
namespace {

constexpr std::string_view kDigits = "0123456789";
constexpr size_t kMostDigits = 18;  // of a number that fits into 64 bits

// A name around its last number.
struct NumberedName {
  std::string before;
  std::string after;
  size_t digits = 0;  // 0: there is no number
  uint64_t number = 0;

  [[nodiscard]] auto Pattern() const { return std::tie(before, after, digits); }
};

NumberedName Split(const std::string& name) {
  const size_t last = name.find_last_of(kDigits);
  if (last == std::string::npos) return {name, {}};
  const size_t begin = name.find_last_not_of(kDigits, last) + 1;
  const size_t digits = last + 1 - begin;
  if (digits > kMostDigits) return {name, {}};
  NumberedName split{name.substr(0, begin), name.substr(last + 1), digits, 0};
  std::from_chars(name.data() + begin, name.data() + last + 1, split.number);
  return split;
}

// "001-198,200"
std::string Ranges(std::vector<uint64_t> numbers, size_t digits) {
  std::ranges::sort(numbers);
  std::string text;
  for (size_t begin = 0; begin < numbers.size();) {
    size_t end = begin + 1;
    while (end < numbers.size() && numbers[end] <= numbers[end - 1] + 1) ++end;
    text += fmt::format("{}{:0{}}", text.empty() ? "" : ",", numbers[begin], digits);
    if (numbers[end - 1] > numbers[begin]) text += fmt::format("-{:0{}}", numbers[end - 1], digits);
    begin = end;
  }
  return text;
}

struct Group {
  NumberedName name;
  std::vector<uint64_t> numbers;
};

std::string Shown(const Group& group) {
  const auto& [before, after, digits, number] = group.name;
  if (digits == 0) return before;
  const std::string numbers = Ranges(group.numbers, digits);
  const bool one = numbers.find_first_not_of(kDigits) == std::string::npos;
  return one ? before + numbers + after : fmt::format("{}[{}]{}", before, numbers, after);
}

// The error with its host and all numbers left out.
std::string Kind(const Error& error) {
  std::string text = fmt::format("{}: {}", PhaseName(error.phase()), error.cause());
  const std::string& host = error.host();
  for (size_t at = 0; !host.empty() && (at = text.find(host, at)) != std::string::npos;) {
    text.erase(at, host.size());
  }
  std::erase_if(text, [](char c) { return c >= '0' && c <= '9'; });
  return text;
}

// By another slot of that machine.
bool IsSaid(const Error& error, const std::vector<Error>& errors) {
  return std::ranges::any_of(errors, [&](const Error& other) {
    return other.host() == error.host() && other.cause() == error.cause() &&
           other.remedy() == error.remedy();
  });
}

}  // namespace

std::string FoldHosts(const std::vector<std::string>& names) {
  std::vector<Group> groups;
  for (const std::string& name : names) {
    NumberedName split = Split(name);
    auto group = std::ranges::find_if(
        groups, [&](const Group& known) { return known.name.Pattern() == split.Pattern(); });
    if (group == groups.end()) group = groups.insert(group, {split, {}});
    group->numbers.push_back(split.number);
  }
  std::string text;
  for (const Group& group : groups) text += (text.empty() ? "" : ", ") + Shown(group);
  return text;
}

std::vector<std::vector<Error>> GroupErrors(const std::vector<Error>& errors) {
  std::vector<std::vector<Error>> groups;
  std::map<std::string, size_t> places;
  for (const Error& error : errors) {
    const auto [place, is_new] = places.try_emplace(Kind(error), groups.size());
    if (is_new) groups.emplace_back();
    std::vector<Error>& alike = groups[place->second];
    if (!IsSaid(error, alike)) alike.push_back(error);
  }
  return groups;
}

}  // namespace tfdist::cli
