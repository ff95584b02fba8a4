#include "cli/stream/terminal_filter.h"

#include <gtest/gtest.h>

#include <random>

namespace tfdist::cli {
namespace {

TEST(SafeForTerminal, KeepsTextColoursAndTabs) {
  EXPECT_EQ(SafeForTerminal("a\tb \xc3\xa9 \xf0\x9f\x98\x80"), "a\tb \xc3\xa9 \xf0\x9f\x98\x80");
  EXPECT_EQ(SafeForTerminal("\x1b[1;31mred"), "\x1b[1;31mred\x1b[0m");
}

TEST(SafeForTerminal, ShowsWhatWouldDriveTheTerminal) {
  EXPECT_EQ(SafeForTerminal("\x1b]52;c;cm0=\x07"), "^[]52;c;cm0=^G");  // OSC 52: clipboard
  EXPECT_EQ(SafeForTerminal("\x1b[6n"), "^[[6n");                      // asks for an answer
  EXPECT_EQ(SafeForTerminal("\x1b[2J"), "^[[2J");                      // clears the screen
  EXPECT_EQ(SafeForTerminal("\xc2\x9b"
                            "6n"),
            "\\x9b"
            "6n");  // C1 as UTF-8
  EXPECT_EQ(SafeForTerminal("\x9b"
                            "6n"),
            "\xef\xbf\xbd"
            "6n");  // C1 as a byte
  EXPECT_EQ(SafeForTerminal("\x7f"), "^?");
}

TEST(SafeForTerminal, ReplacesWhatIsNotUtf8) {
  EXPECT_EQ(SafeForTerminal("\xff"), "\xef\xbf\xbd");
  EXPECT_EQ(SafeForTerminal("\xe2\x82"), "\xef\xbf\xbd\xef\xbf\xbd");                  // cut short
  EXPECT_EQ(SafeForTerminal("\xed\xa0\x80"), "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");  // surrogate
}

TEST(SafeForTerminal, KeepsTheLastStateOfAProgressBar) {
  EXPECT_EQ(SafeForTerminal("10%\r 50%\r100%"), "100%");
  EXPECT_EQ(SafeForTerminal("windows line\r"), "windows line");
}

TEST(SafeForTerminal, NeverLetsAControlByteThrough) {
  std::mt19937 random(3);
  for (int round = 0; round < 5000; ++round) {
    std::string line(random() % 40, '\0');
    for (char& byte : line)
      byte = static_cast<char>(random() % 4 == 0 ? "\x1b[m;"[random() % 4] : random());
    const std::string safe = SafeForTerminal(line);
    for (size_t i = 0; i < safe.size(); ++i) {
      if (safe[i] == '\x1b') {
        const size_t end = safe.find_first_not_of("0123456789;", i + 2);
        ASSERT_EQ(safe[i + 1], '[');
        ASSERT_EQ(safe.at(end), 'm');
      } else {
        ASSERT_TRUE(static_cast<unsigned char>(safe[i]) >= ' ' || safe[i] == '\t');
        ASSERT_NE(safe[i], '\x7f');
      }
    }
  }
}

}  // namespace
}  // namespace tfdist::cli
