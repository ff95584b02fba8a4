#include "cli/ssh/config/config_patterns.h"

#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <memory>

#include "base/text.h"

namespace tfdist::ssh {
namespace {

constexpr std::string_view kSeparators = " \t\r\f\v=\"'";

// Not for `Host` lines with quotes, which may join what stands beside them.
std::vector<std::string> Words(std::string_view text) {
  std::vector<std::string> words;
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(kSeparators), text.size()));
    if (text.empty()) return words;
    const size_t size = std::min(text.find_first_of(kSeparators), text.size());
    words.emplace_back(text.substr(0, size));
    text.remove_prefix(size);
  }
}

// Its usual spelling, or empty: it is no address.
std::string CanonicalAddress(const std::string& name) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (getaddrinfo(name.c_str(), nullptr, &hints, &list) != 0) return {};
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list, freeaddrinfo);
  std::array<char, NI_MAXHOST> text{};
  const int error = getnameinfo(list->ai_addr, list->ai_addrlen, text.data(), text.size(), nullptr,
                                0, NI_NUMERICHOST);
  return error == 0 ? text.data() : "?";
}

}  // namespace

std::optional<ConfigPatterns> ConfigPatterns::Parse(const std::vector<std::string>& texts) {
  ConfigPatterns patterns;
  for (const std::string& text : texts) {
    if (text.find('\0') != std::string::npos) return std::nullopt;
    std::string_view rest = text;
    while (!rest.empty()) {
      if (!patterns.TakeLine(TakeUpTo('\n', rest))) return std::nullopt;
    }
  }
  std::ranges::sort(patterns.patterns_);
  const auto repeated = std::unique(patterns.patterns_.begin(), patterns.patterns_.end());
  patterns.patterns_.erase(repeated, patterns.patterns_.end());
  return patterns;
}

// False when hosts may differ by it in another way.
bool ConfigPatterns::TakeLine(std::string_view line) {
  line.remove_prefix(std::min(line.find_first_not_of(" \t\r\f\v"), line.size()));
  if (line.empty() || line.front() == '#') return true;
  const size_t size = std::min(line.find_first_of(" \t\r\f\v="), line.size());
  const std::string keyword = LowerCase(line.substr(0, size));
  const std::string_view value = line.substr(size);
  if (keyword.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789") != std::string::npos) {
    return false;
  }
  const std::vector<std::string> words = Words(value);
  if (keyword == "match") return words.size() == 1 && LowerCase(words[0]) == "all";
  if (keyword == "canonicalizehostname") return words.size() == 1 && words[0] == "no";
  if (keyword == "include") return value.find('%') == std::string_view::npos;
  if (keyword == "controlpath") return true;
  // A hash that the host's name is part of.
  if (value.find("%C") != std::string_view::npos) return false;
  if (keyword != "host") return true;
  if (value.find_first_of("\\\"'") != std::string_view::npos) return false;
  for (const std::string& word : words) {
    const std::string pattern = word.starts_with('!') ? word.substr(1) : word;
    patterns_.push_back(pattern);
    patterns_.push_back(LowerCase(pattern));  // if some ssh looks away from case
  }
  return true;
}

std::string ConfigPatterns::SignatureOf(std::string_view name) const {
  std::string signature;
  for (const std::string& pattern : patterns_) {
    signature += MatchesPattern(name, pattern) ? '1' : '0';
  }
  return signature;
}

std::vector<std::string> FilesRead(std::string_view errors) {
  constexpr std::string_view kBefore = "debug1: Reading configuration data ";
  std::vector<std::string> files;
  while (!errors.empty()) {
    std::string_view line = TakeUpTo('\n', errors);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.starts_with(kBefore)) files.emplace_back(line.substr(kBefore.size()));
  }
  return files;
}

bool IsPlainHostName(const std::string& name) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyz0123456789.-_:";
  if (name.empty() || name.find_first_not_of(kPlain) != std::string::npos) return false;
  const std::string address = CanonicalAddress(name);
  return address.empty() ? name.find(':') == std::string::npos : address == name;
}

bool MatchesPattern(std::string_view name, std::string_view pattern) {
  constexpr size_t kNone = std::string_view::npos;
  size_t behind_star = kNone;  // the last "*" of the pattern so far
  size_t star_ends = 0;        // how much of the name it takes, tried from none on
  size_t in_name = 0;
  size_t in_pattern = 0;
  while (in_name < name.size()) {
    const char wanted = in_pattern < pattern.size() ? pattern[in_pattern] : '\0';
    if (wanted == '*') {
      behind_star = ++in_pattern;
      star_ends = in_name;
    } else if (wanted == '?' || (wanted != '\0' && wanted == name[in_name])) {
      ++in_pattern;
      ++in_name;
    } else if (behind_star != kNone) {
      in_pattern = behind_star;
      in_name = ++star_ends;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', in_pattern) == kNone;
}

}  // namespace tfdist::ssh
