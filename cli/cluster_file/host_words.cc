#include "cli/cluster_file/host_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

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

std::optional<int> ParseNumber(std::string_view digits, int most) {
  int number = 0;
  const char* end = digits.data() + digits.size();
  const auto [rest, error] = std::from_chars(digits.data(), end, number);
  if (error != std::errc() || rest != end || number < 1 || number > most) return std::nullopt;
  return number;
}

}  // namespace

bool IsUserName(std::string_view name) {
  return !name.empty() && name.front() != '-' && name.front() != '@' &&
         name.find_first_of(" :/[]") == std::string_view::npos;
}

std::variant<HostWords, BadAddress> SplitHost(std::string_view text, int most,
                                              std::string_view meaning) {
  HostWords words;
  std::string_view rest = text;
  if (const size_t at = rest.rfind('@'); at != rest.npos) {
    words.user = rest.substr(0, at);
    rest.remove_prefix(at + 1);
    if (!IsUserName(words.user)) {
      return BadAddress{fmt::format("{} is no user name", Quoted(words.user)), {}};
    }
  }
  const size_t colon = FindColon(rest);
  words.host = rest.substr(0, colon);
  if (colon == rest.npos) return words;
  words.number = ParseNumber(rest.substr(colon + 1), most);
  if (words.number) return words;
  return BadAddress{fmt::format("{}: {} is not {} from 1 to {}", Quoted(text),
                                Quoted(rest.substr(colon + 1)), meaning, most),
                    {}};
}

std::variant<std::vector<HostWords>, BadAddress> ParseHosts(std::string_view text, int most,
                                                            std::string_view meaning) {
  const auto expanded = ExpandRanges(text);
  if (const auto* bad = std::get_if<BadRange>(&expanded)) return BadAddress{bad->why, {}};
  std::vector<HostWords> hosts;
  for (const std::string& one : std::get<std::vector<std::string>>(expanded)) {
    auto split = SplitHost(one, most, meaning);
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
