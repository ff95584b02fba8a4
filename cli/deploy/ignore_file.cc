#include "cli/deploy/ignore_file.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <utility>

#include "base/text.h"

namespace tfdist::cli {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr std::string_view kSpecial = "*?[\\";

enum class Match {
  kYes,
  kNo,
  kNever,     // nor from any later place of the text
  kStarStar,  // nor from any later place before the next slash
};

// What `[:name:]` stands for.
using CharacterClass = std::pair<std::string_view, int (*)(int)>;
constexpr std::array<CharacterClass, 12> kClasses = {{{"alnum", isalnum},
                                                      {"alpha", isalpha},
                                                      {"blank", isblank},
                                                      {"cntrl", iscntrl},
                                                      {"digit", isdigit},
                                                      {"graph", isgraph},
                                                      {"lower", islower},
                                                      {"print", isprint},
                                                      {"punct", ispunct},
                                                      {"space", isspace},
                                                      {"upper", isupper},
                                                      {"xdigit", isxdigit}}};

// A set "[...]" against one character. It follows git's wildmatch.c step by step, as what that does
// with malformed sets is written nowhere else.
class CharacterSet {
 public:
  // `at`: behind the '['. Both strings end with NUL.
  CharacterSet(const char* at, char wanted) : at_(at), wanted_(wanted) {}

  // kNever where the set is malformed.
  Match Look() {
    const bool negated = *at_ == '!' || *at_ == '^';
    if (negated) ++at_;
    char before = 0;
    do {
      if (!Item(before)) return Match::kNever;
      before = last_;
    } while (*++at_ != ']');
    return matched_ != negated && wanted_ != '/' ? Match::kYes : Match::kNo;
  }
  // After Look: at the ']'.
  [[nodiscard]] const char* end() const { return at_; }

 private:
  // Leaves `at_` at the item's last character, and in `last_` what a range may begin with, or 0.
  bool Item(char before) {
    last_ = *at_;
    if (last_ == '\0') return false;
    if (last_ == '-' && before != 0 && at_[1] != '\0' && at_[1] != ']') return Range(before);
    if (last_ == '[' && at_[1] == ':') return Class();
    if (last_ == '\\') last_ = *++at_;
    matched_ |= wanted_ == last_;
    return last_ != '\0';
  }

  bool Range(char first) {
    ++at_;
    if (*at_ == '\\') ++at_;
    if (*at_ == '\0') return false;
    const auto code = [](char c) { return static_cast<unsigned char>(c); };
    matched_ |= code(first) <= code(wanted_) && code(wanted_) <= code(*at_);
    last_ = 0;
    return true;
  }

  bool Class() {
    const char* name = at_ + 2;
    const char* end = std::strchr(name, ']');
    if (end == nullptr) return false;
    if (end == name || end[-1] != ':') {  // an ordinary '['
      matched_ |= wanted_ == '[';
      return true;
    }
    const std::string_view wanted_class(name, static_cast<size_t>(end - 1 - name));
    const auto* found = std::ranges::find(kClasses, wanted_class, &CharacterClass::first);
    if (found == kClasses.end()) return false;
    matched_ |= found->second(static_cast<unsigned char>(wanted_)) != 0;
    at_ = end;
    last_ = 0;
    return true;
  }

  const char* at_;
  char wanted_;
  char last_ = 0;
  bool matched_ = false;
};

Match DoMatch(const char* pattern, const char* text);

// The rest of the pattern behind a star, from each place of the text that the star may reach.
Match MatchRest(const char* rest, const char* text, bool over_slashes) {
  for (; *text != '\0'; ++text) {
    const Match match = DoMatch(rest, text);
    if (match != Match::kNo) {
      if (!over_slashes || match != Match::kStarStar) return match;
    } else if (!over_slashes && *text == '/') {
      return Match::kStarStar;
    }
  }
  return Match::kNever;
}

// `pattern` is at a star. `begin`: where this (part of a) pattern begins.
Match MatchStar(const char* begin, const char* pattern, const char* text) {
  const char* rest = pattern + std::strspn(pattern, "*");
  const bool double_star = rest - pattern > 1;
  const bool own_component = (pattern == begin || pattern[-1] == '/') &&
                             (*rest == '\0' || *rest == '/' || (rest[0] == '\\' && rest[1] == '/'));
  const bool over_slashes = double_star && own_component;
  // "a/**/b" matches "a/b", too.
  if (over_slashes && *rest == '/' && DoMatch(rest + 1, text) == Match::kYes) return Match::kYes;
  const char* slash = std::strchr(text, '/');
  if (*rest == '\0') return over_slashes || slash == nullptr ? Match::kYes : Match::kNo;
  if (!over_slashes && *rest == '/') return slash == nullptr ? Match::kNo : DoMatch(rest, slash);
  return MatchRest(rest, text, over_slashes);
}

Match DoMatch(const char* pattern, const char* text) {
  for (const char* at = pattern; *at != '\0'; ++at, ++text) {
    if (*at == '*') return MatchStar(pattern, at, text);
    if (*text == '\0') return Match::kNever;
    if (*at == '[') {
      CharacterSet set(at + 1, *text);
      if (const Match match = set.Look(); match != Match::kYes) return match;
      at = set.end();
      continue;
    }
    if (*at == '?') {
      if (*text == '/') return Match::kNo;
      continue;
    }
    if (*at == '\\') ++at;
    if (*at != *text) return Match::kNo;
  }
  return *text == '\0' ? Match::kYes : Match::kNo;
}

// git takes what comes before the first special character for itself, and matches the rest as a
// pattern of its own: "a**/b" is then "a" and "**/b".
bool MatchPath(const std::string& pattern, const std::string& path) {
  const size_t literal = std::min(pattern.find_first_of(kSpecial), pattern.size());
  if (path.compare(0, literal, pattern, 0, literal) != 0) return false;
  return DoMatch(pattern.c_str() + literal, path.c_str() + literal) == Match::kYes;
}

// Spaces at the end do not count, unless a backslash stands before them.
std::string_view WithoutTrailingSpaces(std::string_view line) {
  size_t end = 0;
  for (size_t at = 0; at < line.size(); ++at) {
    if (line[at] == ' ') continue;
    if (line[at] == '\\') ++at;
    end = std::min(at + 1, line.size());
  }
  return line.substr(0, end);
}

}  // namespace

bool WildMatch(const std::string& pattern, const std::string& text) {
  return DoMatch(pattern.c_str(), text.c_str()) == Match::kYes;
}

IgnoreFile::IgnoreFile(std::string_view content) {
  if (content.starts_with(kByteOrderMark)) content.remove_prefix(kByteOrderMark.size());
  while (!content.empty()) AddLine(TakeUpTo('\n', content));
}

void IgnoreFile::AddLine(std::string_view line) {
  if (line.empty() || line.front() == '#') return;
  if (line.ends_with('\r')) line.remove_suffix(1);
  line = WithoutTrailingSpaces(line.substr(0, line.find('\0')));
  Pattern pattern;
  pattern.negated = line.starts_with('!');
  if (pattern.negated) line.remove_prefix(1);
  pattern.only_folders = line.ends_with('/');
  if (pattern.only_folders) line.remove_suffix(1);
  pattern.whole_path = line.find('/') != std::string_view::npos;
  if (line.starts_with('/')) line.remove_prefix(1);
  if (line.empty()) return;
  pattern.text = line;
  patterns_.push_back(std::move(pattern));
}

std::optional<bool> IgnoreFile::Ignores(const std::string& path, bool is_folder) const {
  const std::string name = path.substr(path.rfind('/') + 1);
  for (auto pattern = patterns_.rbegin(); pattern != patterns_.rend(); ++pattern) {
    if (pattern->only_folders && !is_folder) continue;
    if (pattern->whole_path ? MatchPath(pattern->text, path) : WildMatch(pattern->text, name)) {
      return !pattern->negated;
    }
  }
  return std::nullopt;
}

bool IgnoreFile::brings_back() const { return std::ranges::any_of(patterns_, &Pattern::negated); }

}  // namespace tfdist::cli
