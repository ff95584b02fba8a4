#include "wire/log_pattern.h"

#include <gtest/gtest.h>
#include <regex.h>

#include <memory>
#include <optional>
#include <random>

#include "base/failures.h"

namespace tfdist::protocol {
namespace {

std::string RefusalOf(const std::string& pattern) {
  try {
    const LogPattern compiled(pattern);
  } catch (const UsageError& error) {
    return error.cause();
  }
  return "";
}

// What regexec(3) says; nullopt: it refuses the pattern.
std::optional<bool> FoundByLibrary(const std::string& pattern, const std::string& line) {
  regex_t compiled{};
  if (regcomp(&compiled, pattern.c_str(), REG_EXTENDED | REG_NOSUB) != 0) return std::nullopt;
  const std::unique_ptr<regex_t, void (*)(regex_t*)> owner(&compiled, regfree);
  regmatch_t range{};
  range.rm_eo = static_cast<regoff_t>(line.size());
  return regexec(&compiled, line.data(), 0, &range, REG_STARTEND) == 0;
}

std::optional<bool> FoundByOurs(const std::string& pattern, const std::string& line) {
  return RefusalOf(pattern).empty() ? std::optional(LogPattern(pattern).FoundIn(line))
                                    : std::nullopt;
}

// Of parts that mean something to one of them, or to both.
std::string RandomText(std::mt19937& random, const std::vector<std::string>& parts, size_t most) {
  std::string text;
  for (size_t left = random() % (most + 1); left > 0; --left)
    text += parts[random() % parts.size()];
  return text;
}

TEST(LogPatternTest, FindsWhatTheLibraryFinds) {
  const std::vector<std::string> in_patterns = {
      "a",          "b",       "ab",       "-",     " ",     "_",
      ".",          "*",       "+",        "?",     "|",     "(",
      ")",          "()",      "(a|b)",    "^",     "$",     "{2}",
      "{1,3}",      "{0}",     "{,2}",     "{2,}",  "{",     "}",
      "{2,1}",      "[ab]",    "[^a]",     "[]a]",  "[a-c]", "[c-a]",
      "[-a]",       "[a-]",    "[a-b-c]",  "[",     "]",     "[[:digit:]_]",
      "[[:none:]]", "[[.-.]]", "[[=a=]b]", "[\\w]", "\\",    "\\.",
      "\\(",        "\\w",     "\\W",      "\\s",   "\\S",   "\\b",
      "\\B",        "\\<",     "\\>",      "\\`",   "\\'",   "\\{",
      "\\n",        "7",       "\xc3"};
  const std::vector<std::string> in_lines = {
      "a", "b",  "c", "ab", "-", " ",    "_",    "7",
      "]", "\\", ".", "{",  ")", "\xc3", "\xa9", std::string(1, '\0')};
  std::mt19937 random(1);
  for (int time = 0; time < 40'000; ++time) {
    const std::string pattern = RandomText(random, in_patterns, 6);
    const std::string line = RandomText(random, in_lines, 8);
    ASSERT_EQ(FoundByOurs(pattern, line), FoundByLibrary(pattern, line))
        << "'" << pattern << "' in '" << line << "'";
  }
}

TEST(LogPatternTest, RefusesWhatCouldTakeLong) {
  EXPECT_NE(RefusalOf("(.*)(.*)\\1\\2x").find("back-reference"), std::string::npos);
  EXPECT_NE(RefusalOf("((((a{9}){9}){9}){9}){9}").find("4096 steps"), std::string::npos);
  EXPECT_NE(RefusalOf("a{0}{255}{255}{255}{255}").find("4096 steps"), std::string::npos);
  EXPECT_NE(RefusalOf("((){255}){255}").find("4096 steps"), std::string::npos);
  EXPECT_NE(RefusalOf("a{1,99999}").find("255"), std::string::npos);
  EXPECT_NE(RefusalOf(std::string(1025, 'a')).find("1 KiB"), std::string::npos);
  for (const char* fine :
       {"loss: (nan|inf)", "step [0-9]{1,6}", "\\\\1", "a\\.b$", "x{3}", "(ab){3}"}) {
    EXPECT_EQ(RefusalOf(fine), "") << fine;
  }
}

// A matcher that tries one way after the other takes longer than any test may, and regexec(3) makes a
// state of each byte of such a line, and keeps all of them.
TEST(LogPatternTest, FollowsAllWaysOfAPatternThatMeansHarmAtOnce) {
  std::mt19937 random(1);
  std::string line;
  for (int at = 0; at < 4096; ++at) line += random() % 2 == 0 ? 'a' : 'b';
  for (const char* pattern : {"[ab]*a[ab]{255}c", "((a|b)*(a|b)*)*c", "(a?){255}(a?){255}c$"}) {
    EXPECT_FALSE(LogPattern(pattern).FoundIn(line)) << pattern;
  }
}

}  // namespace
}  // namespace tfdist::protocol
