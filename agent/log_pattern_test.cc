#include "agent/log_pattern.h"

#include <gtest/gtest.h>

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

TEST(LogPatternTest, RefusesWhatCouldTakeLongerThanTheTextIsLong) {
  EXPECT_NE(RefusalOf("(.*)(.*)\\1\\2x").find("back-reference"), std::string::npos);
  EXPECT_NE(RefusalOf("((a{9}){9}){9}").find("repeats a group"), std::string::npos);
  EXPECT_NE(RefusalOf("a{9}{9}").find("repeats a group, or a repetition"), std::string::npos);
  EXPECT_NE(RefusalOf("a{1,99999}").find("255"), std::string::npos);
  EXPECT_NE(RefusalOf(std::string(33, '(') + std::string(33, ')')).find("32 groups"),
            std::string::npos);
  EXPECT_NE(RefusalOf(std::string(1025, 'a')).find("1 KiB"), std::string::npos);
  for (const char* fine : {"loss: (nan|inf)", "step [0-9]{1,6}", "\\\\1", "a\\.b$", "x{3}"}) {
    EXPECT_EQ(RefusalOf(fine), "") << fine;
  }
}

}  // namespace
}  // namespace tfdist::protocol
