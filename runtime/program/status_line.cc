#include "runtime/program/status_line.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace tfdist::runtime {
namespace {

constexpr size_t kUsualColumns = 80;

size_t ColumnsOfTerminal() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col
                                                                         : kUsualColumns;
}

// A terminal that can erase to the end of a line. TERM=dumb says that it cannot (Emacs' shell).
bool CanWriteOver() {
  const char* term = std::getenv("TERM");
  return isatty(STDOUT_FILENO) == 1 && (term == nullptr || std::string_view(term) != "dumb");
}

}  // namespace

StatusLine::StatusLine(Say say) : say_(std::move(say)), can_write_over_(CanWriteOver()) {}

StatusLine::~StatusLine() { Clear(); }

void StatusLine::Show(const std::string& text) {
  if (!can_write_over_) return;
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
