#include "cli/stream/terminal_filter.h"

#include <gtest/gtest.h>

#include <random>

#include "cli/stream/print.h"

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

// Bidirectional controls let a text be read in another order than it has (CVE-2021-42574).
TEST(SafeForTerminal, ShowsWhatWouldReorderTheText) {
  EXPECT_EQ(SafeForTerminal("a\xe2\x80\xae"
                            "b"),
            "a\\x202eb");
  EXPECT_EQ(SafeForTerminal("\xe2\x81\xa6\xd8\x9c\xe2\x80\xa8"), "\\x2066\\x61c\\x2028");
}

TEST(SafeForTerminal, LeavesColoursOutWhereTheTerminalHasNone) {
  EXPECT_EQ(SafeForTerminal("\x1b[1;31mred\x1b[2J", Colours::kDrop), "red^[[2J");
}

TEST(Print, PutsNoTextIntoAFormatThatDrivesTheTerminalOrLeavesItsLine) {
  EXPECT_EQ(FormatHarmless("{:<6}|{}|\n", std::string("\x1b[m"), 7), "^[[m  |7|\n");
  EXPECT_EQ(FormatHarmless("{}", "first\r\nsecond\n"), "first / second");
  EXPECT_EQ(FormatHarmless("{}", std::string_view("\xc2\x9b"
                                                  "6n")),
            "\\x9b6n");
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
