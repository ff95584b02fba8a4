#include "cli/cluster_file/host_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>

#include "cli/cluster_file/host_range.h"
#include "cli/cluster_file/problems.h"

namespace tfdist::cli {
namespace {

// Where the colon before a number is, or npos. More than one colon is an IPv6 address.
size_t FindColon(std::string_view text) {
  if (text.starts_with('[')) {
    const size_t close = text.find(']');
    const bool more = close != text.npos && close + 1 < text.size() && text[close + 1] == ':';
    return more ? close + 1 : text.npos;
  }
  const size_t colon = text.find(':');
  return colon == text.rfind(':') ? colon : text.npos;
}

constexpr std::string_view kUri = "ssh://";
constexpr int kHighestPort = 65535;

std::optional<int> ParseNumber(std::string_view digits, int most) {
  int number = 0;
  const char* end = digits.data() + digits.size();
  const auto [rest, error] = std::from_chars(digits.data(), end, number);
  if (error != std::errc() || rest != end || number < 1 || number > most) return std::nullopt;
  return number;
}

// Takes the number from the end of `rest`, which is a part of `text`. Says what is wrong with it.
std::optional<BadAddress> TakeNumber(std::string_view text, HostNumber number,
                                     std::string_view& rest, HostWords& words) {
  const size_t colon = FindColon(rest);
  if (colon == rest.npos) return std::nullopt;
  const bool is_port = number == HostNumber::kPort;
  const int most = is_port ? kHighestPort : kMostSlots;
  const std::string_view digits = rest.substr(colon + 1);
  const auto value = ParseNumber(digits, most);
  if (!value) {
    return BadAddress{fmt::format("{}: {} is not {} from 1 to {}", Quoted(text), Quoted(digits),
                                  is_port ? "SSH's port" : "a number of slots", most),
                      {}};
  }
  (is_port ? words.port : words.slots) = value;
  rest = rest.substr(0, colon);
  return std::nullopt;
}

// Of "gpu1:2200:4": ":4".
std::string_view TakeSlotsBehindPort(std::string_view& rest) {
  const size_t last = rest.rfind(':');
  if (last == rest.npos || FindColon(rest.substr(0, last)) == rest.npos) return {};
  const std::string_view slots = rest.substr(last);
  rest = rest.substr(0, last);
  return slots;
}

// Decodes the user in a URI as ssh does (urldecode() in its misc.c). Returns nothing where two digits do not follow a "%".
std::string Decoded(std::string_view text) {
  std::string decoded;
  for (; !text.empty(); text.remove_prefix(1)) {
    if (text.front() != '%') {
      decoded += text.front() == '+' ? ' ' : text.front();
      continue;
    }
    unsigned char value = 0;
    const char* end = text.data() + std::min<size_t>(text.size(), 3);
    const auto [rest, error] = std::from_chars(text.data() + 1, end, value, 16);
    if (error != std::errc() || rest != text.data() + 3 || value == 0) return {};
    decoded += static_cast<char>(value);
    text.remove_prefix(2);
  }
  return decoded;
}

}  // namespace

bool IsUserName(std::string_view name) {
  // What ssh 9.6 refuses, too: an older one gives %r of a ProxyCommand to a shell as it is.
  constexpr std::string_view kForShells = "'`\"$;&<>|(){}";
  const bool has_control = std::ranges::any_of(name, [](unsigned char c) { return c < ' '; });
  return !name.empty() && name.front() != '-' && name.front() != '@' && !has_control &&
         name.find_first_of(" []") == std::string_view::npos &&
         name.find_first_of(kForShells) == std::string_view::npos;
}

std::vector<std::string> SplitHostList(std::string_view list) {
  std::vector<std::string> items(1);
  int depth = 0;
  for (const char c : list) {
    depth += c == '[' ? 1 : c == ']' ? -1 : 0;
    if (c == ',' && depth == 0) {
      items.emplace_back();
    } else {
      items.back() += c;
    }
  }
  for (std::string& item : items) {
    item.erase(0, item.find_first_not_of(' '));
    item.erase(item.find_last_not_of(' ') + 1);
  }
  return items;
}

std::variant<std::vector<std::string>, BadRange> ExpandHostList(std::string_view list) {
  std::vector<std::string> names;
  for (const std::string& item : SplitHostList(list)) {
    auto expanded = ExpandRanges(item);
    if (auto* bad = std::get_if<BadRange>(&expanded)) return std::move(*bad);
    auto& more = std::get<std::vector<std::string>>(expanded);
    if (names.size() + more.size() > kMostHosts)
      return BadRange{fmt::format("more than {} hosts", kMostHosts)};
    std::ranges::move(more, std::back_inserter(names));
  }
  return names;
}

std::variant<HostWords, BadAddress> SplitHost(std::string_view text, HostNumber number) {
  HostWords words;
  std::string_view rest = text;
  const bool is_uri = rest.starts_with(kUri);
  if (is_uri) {
    rest.remove_prefix(kUri.size());
    if (rest.ends_with('/')) rest.remove_suffix(1);
    if (rest.find('/') != rest.npos)
      return BadAddress{fmt::format("{} has a path", Quoted(text)), {}};
  }
  if (const size_t at = rest.rfind('@'); at != rest.npos) {
    const std::string_view user = rest.substr(0, at);
    words.user = is_uri ? Decoded(user) : user;
    rest.remove_prefix(at + 1);
    if (!IsUserName(words.user)) {
      return BadAddress{fmt::format("{} is no user name", Quoted(user)),
                        std::string(kUserNameRemedy)};
    }
  }
  if (is_uri && number == HostNumber::kSlots) {
    std::string_view slots = TakeSlotsBehindPort(rest);
    if (auto bad = TakeNumber(text, HostNumber::kSlots, slots, words)) return *std::move(bad);
  }
  if (auto bad = TakeNumber(text, is_uri ? HostNumber::kPort : number, rest, words)) {
    return *std::move(bad);
  }
  words.host = rest;
  return words;
}

std::variant<std::vector<HostWords>, BadAddress> ParseHosts(std::string_view text,
                                                            HostNumber number) {
  const auto expanded = ExpandHostList(text);
  if (const auto* bad = std::get_if<BadRange>(&expanded)) return BadAddress{bad->why, {}};
  std::vector<HostWords> hosts;
  for (const std::string& one : std::get<std::vector<std::string>>(expanded)) {
    auto split = SplitHost(one, number);
    if (auto* bad = std::get_if<BadAddress>(&split)) return std::move(*bad);
    auto& words = std::get<HostWords>(split);
    auto address = ParseAddress(words.host);
    if (auto* bad = std::get_if<BadAddress>(&address)) return std::move(*bad);
    words.host = std::get<std::string>(std::move(address));
    hosts.push_back(std::move(words));
  }
  return hosts;
}

}  // namespace tfdist::cli
