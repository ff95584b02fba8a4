#include "cli/stream/host_fold.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <iterator>
#include <map>
#include <string_view>
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

constexpr char kOfHost = '\1';  // in place of what differs from host to host, and from task to task
constexpr size_t kMostIndexDigits = 3;  // a port has more

bool IsNameByte(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// The end of a task's name, "worker:3", that begins there; `at` itself: none does.
size_t EndOfTaskName(std::string_view text, size_t at) {
  if (std::isalpha(static_cast<unsigned char>(text[at])) == 0) return at;
  if (at > 0 && (IsNameByte(text[at - 1]) || text[at - 1] == '-' || text[at - 1] == '.')) return at;
  size_t colon = at;
  while (colon < text.size() && (IsNameByte(text[colon]) || text[colon] == '-')) ++colon;
  if (colon == text.size() || text[colon] != ':') return at;
  const size_t end = std::min(text.find_first_not_of(kDigits, colon + 1), text.size());
  const size_t digits = end - colon - 1;
  const bool ends = end == text.size() || !IsNameByte(text[end]);
  return digits > 0 && digits <= kMostIndexDigits && ends ? end : at;
}

// "/h12/", the folder of a slot; `at` itself: none begins there.
size_t EndOfSlotFolder(std::string_view text, size_t at) {
  if (!text.substr(at).starts_with("/h")) return at;
  const size_t end = std::min(text.find_first_not_of(kDigits, at + 2), text.size());
  return end > at + 2 && end < text.size() && text[end] == '/' ? end : at;
}

size_t EndOfHost(std::string_view text, size_t at, std::string_view host) {
  if (host.empty() || !text.substr(at).starts_with(host)) return at;
  const size_t end = at + host.size();
  const bool begins = at == 0 || !IsNameByte(text[at - 1]);
  return begins && (end == text.size() || !IsNameByte(text[end])) ? end : at;
}

// `text` without what names this host or its tasks. `tasks`: the names that it had.
std::string OfAnyHost(std::string_view text, std::string_view host,
                      std::vector<std::string>* tasks = nullptr) {
  std::string of_any;
  for (size_t at = 0; at < text.size();) {
    size_t end = std::max(EndOfHost(text, at, host), EndOfSlotFolder(text, at));
    if (end == at && (end = EndOfTaskName(text, at)) > at && tasks != nullptr)
      tasks->emplace_back(text.substr(at, end - at));
    of_any += end == at ? text[at] : kOfHost;
    at = std::max(end, at + 1);
  }
  return of_any;
}

struct Kind {
  std::string exact;  // alike but for the host and its tasks
  std::string loose;  // and for all numbers: ports, sizes
};

Kind KindOf(const Error& error) {
  const std::string cause = fmt::format("{}: {}", PhaseName(error.phase()), error.cause());
  Kind kind{OfAnyHost(cause, error.host()), {}};
  std::ranges::remove_copy_if(kind.exact, std::back_inserter(kind.loose), IsDigit);
  kind.exact += '\n' + OfAnyHost(error.remedy(), error.host());
  return kind;
}

using Errors = std::vector<Error>;

// In the order of first appearance.
template <typename Part, typename KeyOf>
std::vector<std::vector<Part>> Grouped(const std::vector<Part>& parts, const KeyOf& key_of) {
  std::vector<std::vector<Part>> groups;
  std::map<std::string, size_t> places;
  for (const Part& part : parts) {
    const auto [place, is_new] = places.try_emplace(key_of(part), groups.size());
    if (is_new) groups.emplace_back();
    groups[place->second].push_back(part);
  }
  return groups;
}

void AddOnce(std::vector<std::string>& names, const std::string& name) {
  if (std::ranges::find(names, name) == names.end()) names.push_back(name);
}

std::vector<std::string> TasksIn(const Error& error) {
  std::vector<std::string> tasks;
  (void)OfAnyHost(error.cause(), error.host(), &tasks);
  return tasks;
}

// "the same on 2 more hosts: gpu[2-3] (worker:[1-2])", "the same for worker:[1-2]".
std::string Elsewhere(const Errors& alike) {
  std::vector<std::string> hosts;
  std::vector<std::string> tasks;
  for (const Error& error : alike) {
    AddOnce(hosts, error.host());
    for (const std::string& task : TasksIn(error)) AddOnce(tasks, task);
  }
  hosts.erase(hosts.begin());
  const std::vector<std::string> first = TasksIn(alike.front());
  std::erase_if(tasks, [&](const auto& task) { return std::ranges::count(first, task) > 0; });
  if (hosts.empty()) return tasks.empty() ? "" : "the same for " + FoldHosts(tasks);
  return fmt::format("the same on {} more host{}: {}{}", hosts.size(), hosts.size() == 1 ? "" : "s",
                     FoldHosts(hosts), tasks.empty() ? "" : fmt::format(" ({})", FoldHosts(tasks)));
}

Errors Joined(const std::vector<Errors>& groups) {
  Errors all;
  for (const Errors& group : groups) all.insert(all.end(), group.begin(), group.end());
  return all;
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

std::vector<FoldedError> FoldErrors(const std::vector<Error>& errors) {
  constexpr size_t kMostOneByOne = 3;
  const auto exact = [](const Error& error) { return KindOf(error).exact; };
  const auto loose = [](const Errors& alike) { return KindOf(alike.front()).loose; };
  std::vector<FoldedError> folded;
  for (const std::vector<Errors>& kinds : Grouped(Grouped(errors, exact), loose)) {
    const bool are_many = kinds.size() > kMostOneByOne;
    for (const Errors& alike : are_many ? std::vector<Errors>{Joined(kinds)} : kinds)
      folded.push_back({alike, Elsewhere(alike)});
  }
  return folded;
}

}  // namespace tfdist::cli
