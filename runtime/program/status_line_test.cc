#include "runtime/program/status_line.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/unique_fd.h"

namespace tfdist::runtime {
namespace {

// Standard output is a terminal as long as it lives, with this TERM.
class OnATerminal {
 public:
  explicit OnATerminal(const char* term) {
    if (const char* before = std::getenv("TERM")) term_ = before;
    std::fflush(stdout);
    stdout_ = UniqueFd(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3));
    user_ = UniqueFd(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
    std::array<char, 64> name{};
    EXPECT_EQ(grantpt(user_.get()), 0);
    EXPECT_EQ(unlockpt(user_.get()), 0);
    EXPECT_EQ(ptsname_r(user_.get(), name.data(), name.size()), 0);
    const UniqueFd terminal(open(name.data(), O_RDWR | O_NOCTTY | O_CLOEXEC));
    EXPECT_EQ(dup2(terminal.get(), STDOUT_FILENO), STDOUT_FILENO);
    setenv("TERM", term, 1);
  }
  OnATerminal(const OnATerminal&) = delete;
  OnATerminal& operator=(const OnATerminal&) = delete;
  ~OnATerminal() {
    std::fflush(stdout);
    dup2(stdout_.get(), STDOUT_FILENO);
    setenv("TERM", term_.c_str(), 1);
  }

 private:
  std::string term_ = "dumb";
  UniqueFd stdout_;
  UniqueFd user_;
};

bool IsShownWith(const char* term) {
  const OnATerminal terminal(term);
  return StatusLine([](const std::string&) {}).is_shown();
}

TEST(StatusLine, IsShownOnATerminalThatCanBeWrittenOver) {
  EXPECT_TRUE(IsShownWith("xterm"));
  EXPECT_FALSE(IsShownWith("dumb"));
}

}  // namespace
}  // namespace tfdist::runtime
