#include "agent/log_pattern.h"

#include <fmt/format.h>

#include <array>

#include "base/failures.h"

namespace tfdist::protocol {
namespace {

constexpr size_t kMostPatternBytes = 1024;
constexpr int kMostRepetitions = 255;
constexpr int kMostGroups = 32;

[[noreturn]] void Refuse(std::string_view why) {
  throw UsageError(Phase::kLogs, fmt::format("a pattern that would take too long: {}", why));
}

// glibc's regcomp() copies what is repeated, and its regexec() tries every way with a back-reference:
// the thread that searches has other work, and the pattern may come from a host that means harm.
void CheckCost(const std::string& pattern) {
  if (pattern.size() > kMostPatternBytes) Refuse("it is longer than 1 KiB");
  int groups = 0;
  for (size_t at = 0; at < pattern.size(); ++at) {
    const char before = at > 0 ? pattern[at - 1] : ' ';
    const char c = pattern[at];
    if (c == '\\' && at + 1 < pattern.size()) {
      if (pattern[++at] >= '1' && pattern[at] <= '9') Refuse("it has a back-reference");
    } else if (c == '(') {
      if (++groups > kMostGroups) Refuse("it has more than 32 groups");
    } else if (c == '{') {
      if (before == ')' || before == '}') Refuse("it repeats a group, or a repetition, by {}");
      for (int number = 0; at + 1 < pattern.size() && pattern[at + 1] != '}'; ++at) {
        const char digit = pattern[at + 1];
        number = digit >= '0' && digit <= '9' ? 10 * number + (digit - '0') : 0;
        if (number > kMostRepetitions) Refuse("it repeats by {} more than 255 times");
      }
    }
  }
}

}  // namespace

void LogPattern::Free::operator()(regex_t* pattern) const {
  regfree(pattern);
  delete pattern;
}

LogPattern::LogPattern(const std::string& pattern) {
  CheckCost(pattern);
  auto compiled = std::make_unique<regex_t>();
  const int error = regcomp(compiled.get(), pattern.c_str(), REG_EXTENDED | REG_NOSUB);
  if (error != 0) {
    std::array<char, 200> why{};
    regerror(error, compiled.get(), why.data(), why.size());
    throw UsageError(Phase::kLogs,
                     fmt::format("{}: not a regular expression: {}", pattern, why.data()));
  }
  compiled_.reset(compiled.release());
}

// REG_STARTEND: the line need not end in a NUL, and may hold some (a GNU and BSD extension).
bool LogPattern::FoundIn(std::string_view line) const {
  regmatch_t range{};
  range.rm_so = 0;
  range.rm_eo = static_cast<regoff_t>(line.size());
  return regexec(compiled_.get(), line.data(), 0, &range, REG_STARTEND) == 0;
}

}  // namespace tfdist::protocol
