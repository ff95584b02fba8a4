#include "runtime/program/status_line.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

namespace tfdist::runtime {
namespace {

constexpr size_t kUsualColumns = 80;

size_t ColumnsOfTerminal() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col
                                                                         : kUsualColumns;
}

}  // namespace

StatusLine::StatusLine(Say say) : say_(std::move(say)), is_terminal_(isatty(STDOUT_FILENO) == 1) {}

StatusLine::~StatusLine() { Clear(); }

void StatusLine::Show(const std::string& text) {
  if (!is_terminal_) return;
  Clear();
  text_ = text.substr(0, ColumnsOfTerminal() - 1);  // a full line would begin the next one
  Draw();
}

void StatusLine::SayLine(const std::string& line) {
  const std::string text = std::exchange(text_, "");
  if (!text.empty()) std::fputs("\r\x1b[K", stdout);
  say_(line);
  text_ = text;
  Draw();
}

void StatusLine::Clear() {
  if (text_.empty()) return;
  text_.clear();
  std::fputs("\r\x1b[K", stdout);  // to the first column, erase to the end
  std::fflush(stdout);
}

void StatusLine::Draw() const {
  if (text_.empty()) return;
  std::fputs(text_.c_str(), stdout);
  std::fflush(stdout);
}

}  // namespace tfdist::runtime
